//! What a gate says of its servers, and which of them a call has connected before it says that a name means nothing.

use super::*;

#[test]
fn a_server_has_an_offer_from_its_first_list_until_that_is_withdrawn() {
    let gate = gate(settings());
    let seen = || (["k8s", "lazy", "unknown"].map(|server| gate.has_offer(server)), gate.servers_without_offer());
    assert_eq!(seen(), ([true, false, false], vec!["lazy".to_owned()]));
    gate.offer("lazy", Vec::new());
    assert_eq!(seen(), ([true, true, false], Vec::new()), "an empty list is an offer");
    gate.withdraw("lazy");
    gate.withdraw("k8s");
    assert_eq!(seen(), ([false, false, false], vec!["k8s".to_owned(), "lazy".to_owned()]));
}

#[test]
fn a_server_outside_the_selection_is_neither_waited_for_nor_admitted() {
    let mut settings = settings();
    settings.policy.selection = Some(vec![SelectedServer { id: "k8s".into(), tools: Vec::new() }]);
    let gate = gate(settings);
    assert_eq!(gate.servers_without_offer(), [""; 0]);
    assert_eq!((gate.admits("k8s"), gate.admits("lazy")), (true, false));
}

#[test]
fn a_failure_of_a_server_is_described_masked_and_cut() {
    let failure = Failure::Connect("password: hunter2hunter2 is wrong".into());
    let masked = Masks { groups: vec!["basic".into()], ..Masks::default() };
    for (settings, expected) in [
        (settings(), "cannot connect to server \"k8s\": password: hunter2hunter2 is wrong"),
        (
            Settings { masks: masked, ..settings() },
            "cannot connect to server \"k8s\": password: [MASKED_PASSWORD] is wrong",
        ),
        (
            Settings { max_result_bytes: 14, ..settings() },
            "cannot connect\n\n[TRUNCATED: result exceeded the size limit — Original size: 65B, limit: 14B]",
        ),
    ] {
        assert_eq!(gate(settings).describe("k8s", &failure), expected);
    }
}

#[test]
fn a_call_connects_the_servers_that_its_name_could_mean() {
    let servers = ["kubernetes-prod-a", "kubernetes-prod-b", "git"].map(str::to_owned);
    for (name, bare_names, expected) in [
        ("kubernetes-prod-a.get", false, "connect:kubernetes-prod-a"),
        ("kubernetes-prod-a.get", true, "connect:kubernetes-prod-a"),
        ("kubernetes_prod_get_1x2y", false, "connect:kubernetes-prod-a+kubernetes-prod-b"),
        ("git_log", false, "connect:git"),
        ("log", false, "InvalidName"),
        ("log", true, "connect:kubernetes-prod-a+kubernetes-prod-b+git"),
        ("svn.log", true, "UnknownServer"),
    ] {
        let gate = Gate::new(Settings { bare_names, ..Settings::new(servers.clone()) }).unwrap();
        assert_eq!(word(&gate.begin(call(name, "")).1), expected, "{name}, bare names: {bare_names}");
    }
}
