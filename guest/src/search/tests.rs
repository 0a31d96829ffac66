//! What is found, in which order, and that nothing else changes it.

use super::*;

/// The tools of the tests: server, name, description.
const TOOLS: &[(&str, &str, &str)] = &[
    ("weather", "get_forecast", "Returns the forecast of the coming days for a city."),
    ("weather", "get_alerts", "Lists the warnings of storms for a region."),
    ("files", "read_file", "Reads a file."),
    ("files", "delete_file", "Deletes a file from the disk."),
    ("files", "listDirectory", "Lists what is in a folder."),
    ("github", "create_issue", "Opens a new issue in a repository."),
    ("github", "search-issues", "Finds issues by their text."),
    ("media", "resize_image", "Changes the width and the height of an image."),
    ("media", "transcribeAudio", "Turns speech into text."),
    ("maps", "geocode.address", "Converts an address to coordinates."),
    ("bing", "搜索", "使用必应搜索网页，并返回结果列表"),
    ("погода", "прогноз", "Показывает прогноз погоды в городе"),
];

fn tool<'a>((server, name, description): (&'a str, &'a str, &'a str)) -> SearchableTool<'a> {
    SearchableTool { server, name, description: Some(description), input_schema: None }
}

fn index() -> SearchIndex {
    SearchIndex::new(TOOLS.iter().copied().map(tool))
}

fn names(query: &str) -> Vec<&'static str> {
    index().find(query, 20).iter().map(|hit| TOOLS[hit.tool].1).collect()
}

/// Checks which tool is the first one for a query.
fn check(rows: &[(&str, &str)]) {
    for &(query, first) in rows {
        assert_eq!(names(query).first(), Some(&first), "{query}");
    }
}

#[test]
fn questions_find_their_tool() {
    check(&[
        ("What will the weather be like in Paris?", "get_forecast"),
        ("please read the file for me", "read_file"),
        ("convert addresses to coordinates", "geocode.address"),
        ("Is there a storm warning?", "get_alerts"),
        ("open an issue", "create_issue"),
    ]);
}

#[test]
fn a_name_in_any_form_comes_first() {
    check(&[
        ("read_file", "read_file"),
        ("READ-FILE", "read_file"),
        (" readFile ", "read_file"),
        ("read file", "read_file"),
        ("files.read_file", "read_file"),
        ("files__read_file", "read_file"),
        ("files/read_file", "read_file"),
        ("Files.Read-File", "read_file"),
        ("list_directory", "listDirectory"),
        ("search_issues", "search-issues"),
        ("maps.geocode.address", "geocode.address"),
        ("geocode_address", "geocode.address"),
        ("bing__搜索", "搜索"),
        ("files_read_file", "read_file"),
        ("mcp_files_read_file", "read_file"),
        ("mcp__files__read_file", "read_file"),
        ("mcp-maps-geocode-address", "geocode.address"),
        ("`read_file()`", "read_file"),
    ]);
    let tools = [("mcp", "mcp_run", "run"), ("b", "run", "run run"), ("mcp", "run", "")];
    let index = SearchIndex::new(tools.into_iter().map(tool));
    for (query, first) in [("mcp_run", 0), ("mcp__mcp__run", 2), ("mcp__b__run", 1)] {
        let hit = &index.find(query, 1)[0];
        assert!(hit.tool == first && hit.score >= 1.0, "{query}: {hit:?}");
    }
}

#[test]
fn an_exact_name_beats_every_description() {
    let spam = "ping ping ping ping server ping";
    let tools = [
        ("a", "pinger", spam),
        ("b", "server_ping", spam),
        ("c", "ping", ""),
        ("d", "PING", spam),
        ("e", "p-ing", spam),
    ];
    let index = SearchIndex::new(tools.into_iter().map(tool));
    let found = |query: &str| -> Vec<usize> { index.find(query, 3).iter().map(|hit| hit.tool).collect() };
    assert_eq!(found("ping"), [2, 3, 4], "sign by sign, then in another case, then with other separators");
    assert_eq!(found("PING")[..2], [3, 2]);
    assert_eq!(found("d.ping")[0], 3);
    let other = &index.find("p_ing", 1)[0];
    assert!(other.tool == 4 && other.score >= 2.0, "another separator is better than none: {other:?}");
    let hits = index.find("ping", 9);
    assert!(hits[2].score >= 1.0 && hits[3].score < 1.0, "{hits:?}");
}

#[test]
fn one_name_at_two_servers_is_found_at_both_in_order() {
    let index = SearchIndex::new([("z", "run", "x"), ("a", "run", "x"), ("m", "walk", "run")].into_iter().map(tool));
    let hits = index.find("run", 9);
    assert_eq!(hits.iter().map(|hit| hit.tool).collect::<Vec<_>>(), [1, 0, 2]);
    assert_eq!(hits[0].score, hits[1].score);
    assert_eq!(index.find("z.run", 9)[0].tool, 0);
}

#[test]
fn ties_are_broken_by_name_then_by_server() {
    let tools = [("a", "y_scan", ""), ("d", "x_scan", ""), ("b", "y_scan", ""), ("c", "x_scan", "")];
    let index = SearchIndex::new(tools.into_iter().map(tool));
    assert_eq!(index.find("scan", 9).iter().map(|hit| hit.tool).collect::<Vec<_>>(), [3, 1, 0, 2]);
}

#[test]
fn only_admitted_tools_are_found() {
    let mut asked = 0;
    let hits = index().find_if("file", 1, &mut |tool| {
        asked += 1;
        TOOLS[tool].1 != "read_file"
    });
    assert_eq!(TOOLS[hits[0].tool].1, "delete_file");
    assert_eq!((hits.len(), asked), (1, 2), "no more tools are asked for than needed");
}

#[test]
fn typing_mistakes_are_forgiven() {
    check(&[
        ("forcast", "get_forecast"),
        ("ofrecast", "get_forecast"),
        ("directry", "listDirectory"),
        ("corodinate adress", "geocode.address"),
        ("coordniaets", "geocode.address"),
        ("reposittorry", "create_issue"),
    ]);
    // Two mistakes in a short word, three in a long one, and any in a word with digits.
    for query in ["fxlx", "fxrxcxst", "coxrdxnatxs", "f1le"] {
        assert_eq!(names(query), [""; 0], "{query}");
    }
}

#[test]
fn a_known_word_is_never_taken_for_a_mistake() {
    let tools = [("a", "sort_list", "Sorts."), ("b", "port_scan", "Scans a port.")];
    let index = SearchIndex::new(tools.into_iter().map(tool));
    assert_eq!(index.find("port", 9).len(), 1);
}

#[test]
fn only_words_of_the_catalog_are_meant_by_a_mistake() {
    // The thesaurus has `document`, which is nearer.
    let index = SearchIndex::new([tool(("a", "x", "Keeps a monument."))].into_iter());
    assert_eq!(index.find("docunment", 9).len(), 0, "three mistakes");
    assert_eq!(index.find("monumenet", 1)[0].why, "description: monument (for monumenet)");
    let index = SearchIndex::new([tool(("a", "x", "Drinks a documenta."))].into_iter());
    assert_eq!(index.find("documentxa", 1)[0].why, "description: documenta (for documentxa)");
    assert_eq!(index.find("documnta", 1)[0].why, "description: documenta (for documnta)");
    assert_eq!(index.find("documnet", 1)[0].why, "description: documenta (for documnet)");
}

#[test]
fn words_with_the_same_meaning_are_found_but_count_less() {
    check(&[
        ("remove a document", "delete_file"),
        ("change the size of a photo", "resize_image"),
        ("lookup bugs", "search-issues"),
        ("show the directory", "listDirectory"),
    ]);
    let tools = [("a", "delete_row", ""), ("b", "remove_row", ""), ("c", "drop_row", "")];
    let index = SearchIndex::new(tools.into_iter().map(tool));
    let hits = index.find("remove", 9);
    assert_eq!(hits.iter().map(|hit| hit.tool).collect::<Vec<_>>(), [1, 0, 2]);
    assert!(hits[0].score > 1.5 * hits[1].score, "{hits:?}");
}

#[test]
fn a_rare_synonym_of_a_common_word_is_no_better_than_the_word() {
    let tools = ["fetch_a", "get_b", "get_c", "get_d", "get_e", "get_f", "get_g", "get_h"];
    let index = SearchIndex::new(tools.into_iter().map(|name| tool(("a", name, ""))));
    let hits = index.find("get", 9);
    assert_eq!(hits.last().map(|hit| hit.tool), Some(0), "{hits:?}");
}

#[test]
fn a_short_sentence_counts_as_much_as_a_long_one() {
    let tools = [
        ("a", "create_invoice", "Creates an invoice of a customer with amount, currency and due date."),
        ("a", "send_invoice", "Sends an invoice to a customer with amount, currency and due date."),
        ("b", "reboot", "Reboots."),
    ];
    let index = SearchIndex::new(tools.into_iter().map(tool));
    let hits = index.find("Create an invoice for this customer with amount, currency and due date. Then reboot.", 2);
    assert_eq!(hits.iter().map(|hit| hit.tool).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn common_words_of_questions_and_quoted_values_count_less() {
    // Of equal scores, the first tool would win.
    let tools = [("a", "x", "Reports different."), ("b", "y", "Reports earthquakes."), ("c", "z", "Reports storms.")];
    let index = SearchIndex::new(tools.into_iter().map(tool));
    for (query, first) in [
        ("different earthquakes", 1),
        ("the \"earthquakes\" storms", 2),
        ("the 'earthquakes' storms", 2),
        ("it's earthquakes, isn't it? storms", 1),
    ] {
        assert_eq!(index.find(query, 1)[0].tool, first, "{query}");
    }
}

#[test]
fn other_scripts_are_found_by_their_letters() {
    check(&[
        ("必应搜索网页", "搜索"),
        ("返回列表", "搜索"),
        ("网", "搜索"),
        ("какая погода", "прогноз"),
        ("ПРОГНОЗЫ", "прогноз"),
        ("ｒｅａｄ ｆｉｌｅ", "read_file"),
        ("géocode l'adresse", "geocode.address"),
    ]);
}

#[test]
fn each_sentence_of_a_query_finds_its_tool() {
    let found = names(
        "First delete the old file from the disk. Then create an issue in the repository about it. Finally, resize the image.",
    );
    for name in ["delete_file", "create_issue", "resize_image"] {
        assert!(found[..4].contains(&name), "{found:?}");
    }
}

#[test]
fn parameters_are_searched_also_within_others() {
    let schema = r#"{"type":"object","properties":{"latitude":{"description":"Where, in degrees"},
        "options":{"properties":{"windSpeed":{}}},"days":{"items":{"properties":{"humidity":{}}}}}}"#;
    let with = SearchableTool { server: "a", name: "x", description: None, input_schema: Some(schema) };
    let index = SearchIndex::new([with, tool(("b", "y", "nothing of it"))].into_iter());
    for query in ["latitude", "degrees", "wind", "wind_speed", "humidity"] {
        let hits = index.find(query, 9);
        assert_eq!(hits.len(), 1, "{query}");
        assert!(hits[0].why.starts_with("parameters: "), "{}", hits[0].why);
    }
}

#[test]
fn a_hit_says_why_it_was_found() {
    for (query, why) in [
        ("forecast for a city by the weather service", "name: forecast; server: weather; description: city"),
        ("get_forecast", "name: get, forecast, getforecast"),
        ("the forcast", "name: forecast (for forcast)"),
    ] {
        assert_eq!(index().find(query, 1)[0].why, why, "{query}");
    }
    assert_eq!(index().find("erase", 1)[0].why, "name: delete (for erase)");
    assert_eq!(SearchIndex::new([tool(("a", "+", ""))].into_iter()).find("+", 1)[0].why, "name");
}

/// Returns the hits with the tools by name, since positions change with the order.
fn told(tools: &[(&str, &str, &str)], query: &str) -> String {
    let index = SearchIndex::new(tools.iter().copied().map(tool));
    let hits = index.find(query, 10);
    hits.iter().map(|hit| format!("{:?} {:016x} {}\n", tools[hit.tool], hit.score.to_bits(), hit.why)).collect()
}

#[test]
fn the_order_of_the_tools_changes_nothing() {
    let mut tools = TOOLS.to_vec();
    // Two tools with one name differ only in what they say.
    tools.extend([("files", "read_file", "Reads a text file."), ("files", "read_file", "Reads an image file.")]);
    let queries =
        ["read a file", "weather forcast", "delete it. List the folder. Get alerts!", "issue", "搜索", "zzz", ""];
    let expected: Vec<String> = queries.iter().map(|query| told(&tools, query)).collect();
    let mut seed = 1u64;
    for _ in 0..24 {
        for at in (1..tools.len()).rev() {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            tools.swap(at, (seed >> 33) as usize % (at + 1));
        }
        for (query, expected) in queries.iter().zip(&expected) {
            assert_eq!(told(&tools, query), *expected, "{query}");
        }
    }
}

#[test]
fn the_order_of_parameters_changes_nothing() {
    let long = "x y z ".repeat(1000);
    let parameters = [
        r#""city":{"description":"The city of the address"}"#.to_owned(),
        r#""address":{"description":"An address, in one line"}"#.to_owned(),
        format!(r#""note":{{"description":"{long}"}}"#),
        format!(r#""zone":{{"description":"The zone. {long}"}}"#),
    ];
    let told = |order: [usize; 4]| {
        let schema = order.map(|at| parameters[at].as_str()).join(",");
        let schema = format!(r#"{{"properties":{{{schema}}}}}"#);
        let with = SearchableTool { server: "a", name: "x", description: None, input_schema: Some(&schema) };
        let index = SearchIndex::new([with, tool(("b", "city", "An address."))].into_iter());
        ["city address", "zone", "note", "y"].map(|query| index.find(query, 9))
    };
    let expected = told([0, 1, 2, 3]);
    assert!(expected.iter().all(|hits| !hits.is_empty()));
    for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
        assert_eq!(told(order), expected);
    }
}

#[test]
fn what_nobody_means_finds_nothing() {
    for query in ["", " ", "\0", "...", "?!", "qqqq", "99999", "🦀"] {
        assert_eq!(names(query), [""; 0], "{query:?}");
    }
    assert_eq!(index().find("read file", 0), []);
    assert_eq!(SearchIndex::new(std::iter::empty()).find("read file", 5), []);
    assert_eq!(names("what is it"), [""; 0], "stop words are searched for only in names");
}

#[test]
fn many_tools_with_one_name_are_found_by_server() {
    let servers: Vec<String> = (0..10_000).rev().map(|n| format!("s{n:05}")).collect();
    let index = SearchIndex::new(servers.iter().map(|server| tool((server, "run", "Runs."))));
    let hits = index.find("run", 3);
    assert_eq!(hits.iter().map(|hit| &*servers[hit.tool]).collect::<Vec<_>>(), ["s00000", "s00001", "s00002"]);
    assert_eq!(servers[index.find("s07777__run", 1)[0].tool], "s07777");
    assert_eq!(index.find("run", usize::MAX).len(), 10_000);
}

#[test]
fn a_limit_keeps_the_best() {
    let all = index().find("get a file", 100);
    assert!(all.len() > 3);
    for limit in 0..=all.len() {
        assert_eq!(index().find("get a file", limit), all[..limit]);
    }
    assert!(all.is_sorted_by(|one, other| one.score >= other.score));
    assert_eq!(index().find("get a file", usize::MAX), all);
}

#[test]
fn long_queries_and_descriptions_are_cut() {
    let filler = "é".repeat(2 * 1024);
    assert_eq!(names(&format!("{filler} forecast")), [""; 0], "the word begins behind 4 KiB");
    assert_eq!(names(&format!("{} forecast", &filler[..4000]))[0], "get_forecast");
    let long = format!("first {} last", "ü".repeat(4 * 1024));
    let index = SearchIndex::new([tool(("a", "b", &long))].into_iter());
    assert_eq!(index.find("first", 9).len(), 1);
    assert_eq!(index.find("last", 9).len(), 0);
}

#[test]
fn hostile_texts_are_survived() {
    let texts = [
        "a".repeat(1_000_000),
        "forecst ".repeat(125_000),
        (0..200_000).map(|n| format!("w{n} ")).collect(),
        "'\"“".repeat(300_000),
        ". ".repeat(500_000),
        "\0".repeat(1_000_000),
        "aB".repeat(500_000),
        "y".repeat(1_000_000),
        "ノ".repeat(300_000),
        "a\u{301}-_.".repeat(200_000),
        "_".repeat(1_000_000),
    ];
    let index = index();
    for text in &texts {
        index.find(text, 10);
    }
    let tools = texts.iter().map(|text| SearchableTool {
        server: text,
        name: text,
        description: Some(text),
        input_schema: None,
    });
    let hostile = SearchIndex::new(tools.chain([tool(("", "", "")), tool(("\0", "\0", "\0"))]));
    for text in texts.iter().map(String::as_str).chain(["a", "\0", "", "forecast", "ノ"]) {
        assert!(hostile.find(text, 3).len() <= 3);
    }
}

#[test]
fn a_deep_schema_is_survived() {
    let deep = (0..100).fold("{}".to_owned(), |inner, _| {
        format!(r#"{{"properties":{{"inner":{inner}}},"anyOf":[1,{{"items":[]}}]}}"#)
    });
    for schema in [&deep, "null", "[]", "no JSON"] {
        let tool = SearchableTool { server: "a", name: "b", description: None, input_schema: Some(schema) };
        SearchIndex::new([tool].into_iter()).find("inner", 1);
    }
}
