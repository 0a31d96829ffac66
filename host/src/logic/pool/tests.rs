//! A pool with the built-in component.

use std::sync::LazyLock;

use super::super::types::Annotations;
use super::super::types::execution::{Code, Directive, Event, Settings, Summary, ToolCall, ToolResult};
use super::*;

static COMPONENT: LazyLock<Component> =
    LazyLock::new(|| Component::embedded(&super::super::tests::quick()).expect("the built-in component loads"));

fn settings(servers: &[&str]) -> Settings {
    let mut logic = Supervisor::new(COMPONENT.clone()).unwrap();
    let servers: Vec<_> = servers.iter().map(|&id| id.to_owned()).collect();
    let mut settings = logic.default_settings(&servers).unwrap();
    settings.masks.groups = vec!["basic".to_owned()];
    settings.max_result_bytes = 0;
    settings
}

fn pool(pools: &Arc<PoolSet>) -> Arc<InstancePool> {
    InstancePool::open(pools, &COMPONENT, settings(&["a", "late"])).unwrap().unwrap()
}

fn tools(names: &[&str]) -> Arc<[Tool]> {
    let annotations = Annotations { read_only: None, destructive: None, idempotent: None, open_world: None };
    let tool = |name: &&str| Tool { name: (*name).to_owned(), description: None, input_schema: None, annotations };
    names.iter().map(tool).collect()
}

/// A gate whose server `a` has listed its tools, in a pool of its own.
fn gate() -> (Arc<InstancePool>, Arc<GateOffers>) {
    let (pool, opened) = (pool(&PoolSet::new(&COMPONENT)), Arc::default());
    assert_eq!(pool.offer(&opened, "a", &tools(&["x"])).unwrap(), []);
    (pool, opened)
}

fn begin(pool: &InstancePool, opened: &Arc<GateOffers>, name: &str) -> (CallTicket, Directive) {
    let call = ToolCall { id: "7".to_owned(), name: name.to_owned(), arguments: String::new() };
    pool.begin(opened, call, false).unwrap()
}

fn answer(text: &str) -> Event {
    Event::Answered(format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#))
}

#[track_caller]
fn done(directive: Directive) -> ToolResult {
    match directive {
        Directive::Done(result) => result,
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn an_instance_that_has_grown_is_given_back_after_its_call() {
    let (pool, opened) = gate();
    let before = pool.memory_bytes();
    let (ticket, _) = begin(&pool, &opened, "a.x");
    let result = done(pool.next(&opened, &ticket, answer(&"word ".repeat(700_000))).unwrap());
    assert_eq!((result.code, result.text.len()), (Code::Ok, 3_500_000));
    pool.end(&ticket).0.unwrap();
    assert!(pool.memory_bytes() <= before + (8 << 20), "{} and then {}", before, pool.memory_bytes());
    let (ticket, _) = begin(&pool, &opened, "a.x");
    assert_eq!(done(pool.next(&opened, &ticket, answer("hello")).unwrap()).text, "hello");
}

#[test]
fn a_call_under_way_goes_on_where_its_instance_is_given_back() {
    let (pool, opened) = gate();
    let long = "x".repeat(2_000_000);
    let call = |arguments: String| ToolCall { id: "7".to_owned(), name: "a.x".to_owned(), arguments };
    // Both are in the same instance, the one for long inputs, because nobody else uses it.
    let (bystander, _) = pool.begin(&opened, call(format!(r#"{{"n":"{}"}}"#, &long[..LONG + 1])), false).unwrap();
    let (culprit, _) = pool.begin(&opened, call(format!(r#"{{"n":"{long}"}}"#)), false).unwrap();
    assert_eq!(bystander.slot(), culprit.slot());
    done(pool.next(&opened, &culprit, answer(&"word ".repeat(700_000))).unwrap());
    pool.end(&culprit).0.unwrap();
    assert_eq!(done(pool.next(&opened, &bystander, answer("hello")).unwrap()).text, "hello");
}

#[test]
fn a_long_answer_takes_its_call_away_from_short_ones() {
    let (pool, opened) = gate();
    let (short, _) = begin(&pool, &opened, "a.x");
    let (long, _) = begin(&pool, &opened, "a.x");
    assert_eq!((short.slot(), long.slot()), (0, 0));
    let result = done(pool.next(&opened, &long, answer(&"word ".repeat(20_000))).unwrap());
    assert_eq!((result.code, result.attempts, long.slot() >= pool.short_slots()), (Code::Ok, 1, true));
    assert_eq!(done(pool.next(&opened, &short, answer("hello")).unwrap()).text, "hello");
}

#[test]
fn who_finds_an_instance_busy_takes_another_that_knows_all_offers() {
    let (pool, opened) = gate();
    let busy = lock(&pool.slots[0]);
    let (ticket, directive) = begin(&pool, &opened, "a.x");
    assert!(ticket.slot() == 1 && matches!(directive, Directive::Request(_)), "{directive:?}");
    // Tools that arrive while a call waits for them reach the call's instance.
    let (waiting, directive) = begin(&pool, &opened, "late.y");
    assert!(matches!(directive, Directive::Connect(_)), "{directive:?}");
    drop(busy);
    pool.offer(&opened, "late", &tools(&["y"])).unwrap();
    assert_eq!((waiting.slot(), lock(&pool.slots[0]).as_ref().map(|slot| slot.gates.len())), (1, Some(1)));
    let directive = pool.next(&opened, &waiting, Event::Connected).unwrap();
    assert!(matches!(directive, Directive::Request(_)), "{directive:?}");
    let forwarded = Event::Forwarded(Summary { is_error: false });
    assert_eq!(done(pool.next(&opened, &ticket, forwarded).unwrap()).code, Code::Ok);
}

#[test]
fn gates_of_equal_settings_keep_their_offers_apart() {
    let (pool, one) = gate();
    let other = Arc::default();
    pool.offer(&other, "a", &tools(&["z"])).unwrap();
    for (opened, name, code) in [(&one, "a.x", None), (&one, "a.z", Some(Code::UnknownTool)), (&other, "a.z", None)] {
        let (ticket, directive) = begin(&pool, opened, name);
        let ended = if let Directive::Done(result) = directive { Some(result.code) } else { None };
        assert_eq!((ticket.slot(), ended), (0, code), "{name}");
        pool.end(&ticket).0.unwrap();
    }
}

#[test]
fn gates_that_are_gone_or_too_many_are_forgotten() {
    let (pool, opened) = gate();
    let known = || lock(&pool.slots[0]).as_ref().map(|slot| slot.gates.len()).unwrap();
    for _ in 0..3 {
        let gone: Arc<GateOffers> = Arc::default();
        pool.offer(&gone, "a", &tools(&["x"])).unwrap();
    }
    let (ticket, _) = begin(&pool, &opened, "a.x");
    let kept: Vec<Arc<GateOffers>> = (0..MOST_GATES + 2).map(|_| Arc::default()).collect();
    pool.offer(&kept[0], "a", &tools(&["x"])).unwrap();
    assert_eq!(known(), 2, "those that are gone");
    kept.iter().for_each(|opened| drop(pool.offer(opened, "a", &tools(&["x"])).unwrap()));
    assert_eq!(known(), MOST_GATES + 1, "the one that a call is in stays");
    assert_eq!(done(pool.next(&opened, &ticket, answer("hello")).unwrap()).text, "hello");
}

#[test]
fn the_instances_of_all_pools_are_bounded() {
    let set = PoolSet::new(&COMPONENT);
    let pools: Vec<_> = (0..MAX_ALL_INSTANCES + 5).map(|_| pool(&set)).collect();
    assert_eq!(set.instance_count.load(Ordering::SeqCst), MAX_ALL_INSTANCES);
    // The pool that was unused for longest has lost its instances, and gets new ones when it is used.
    assert!(pools[0].slots.iter().all(|slot| lock(slot).is_none()));
    let opened = Arc::default();
    pools[0].offer(&opened, "a", &tools(&["x"])).unwrap();
    assert!(matches!(begin(&pools[0], &opened, "a.x").1, Directive::Request(_)));
    drop(pools);
    assert_eq!(set.instance_count.load(Ordering::SeqCst), 0);
}

#[test]
fn a_call_that_is_over_is_none_of_a_later_instance() {
    let pools = PoolSet::new(&COMPONENT);
    let first = pool(&pools);
    let opened = Arc::default();
    first.offer(&opened, "a", &tools(&["x"])).unwrap();
    let (over, _) = begin(&first, &opened, "a.x");
    done(first.next(&opened, &over, answer("hello")).unwrap());
    assert!(first.drop_idle());
    let (under_way, _) = begin(&first, &opened, "a.x");
    let (ended, _) = first.end(&over);
    ended.unwrap();
    assert_eq!(done(first.next(&opened, &under_way, answer("again")).unwrap()).text, "again");
}

#[test]
fn settings_that_cannot_be_used_make_no_pool() {
    let mut bad = settings(&["a"]);
    bad.masks.groups = vec!["nonsense".to_owned()];
    assert!(InstancePool::open(&PoolSet::new(&COMPONENT), &COMPONENT, bad).unwrap().is_err());
}
