//! What masks leave of an answer, whatever blocks it comes in.

use super::*;

#[test]
fn a_picture_survives_every_mask_and_a_secret_over_two_blocks_none() {
    let mut settings = settings();
    settings.masks.groups = vec!["all".into()];
    let picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    assert!(!gate(settings.clone()).mask_json("k8s", &format!("[\"{picture}\"]")).contains(picture), "a mask finds it");
    let answer = format!(
        r#"{{"content":[{{"type":"image","mimeType":"image/png","data":"{picture}"}},{{"type":"text","text":"kind: Secret\ndata:"}},{{"type":"text","text":"  a: c2Vj"}}]}}"#
    );
    for form in [ResultForm::Text, ResultForm::PassThrough] {
        let settings = Settings { form, ..settings.clone() };
        let (_, last) = play(&gate(settings), call("k8s.get", ""), vec![Event::Answered(answer.clone())]);
        let shown = format!("{:?}", result(last));
        assert!(shown.contains(picture), "{shown}");
        assert!(!shown.contains("c2Vj"), "{shown}");
    }
}

#[test]
fn a_secret_in_pieces_is_shown_in_none_of_its_blocks() {
    let mut settings = settings();
    settings.masks.groups = vec!["all".into()];
    for pieces in [
        &["password:", "hunter2-Tr0ub4dor"][..],
        &["the key is gh", "p_abcdefghijkl", "mnopqrstuvwxyz0123 ", "bye"],
        &["AKIAIOSF", "ODNN7EXAMPLE"],
    ] {
        let blocks: Vec<String> = pieces.iter().map(|text| format!(r#"{{"type":"text","text":"{text}"}}"#)).collect();
        let answer = format!(r#"{{"content":[{}]}}"#, blocks.join(","));
        for form in [ResultForm::Text, ResultForm::PassThrough] {
            let settings = Settings { form, ..settings.clone() };
            let (_, last) = play(&gate(settings), call("k8s.get", ""), vec![Event::Answered(answer.clone())]);
            let shown = format!("{:?}", result(last));
            for piece in ["hunter2", "abcdefghijkl", "mnopqrstuvwxyz", "AKIAIOSF", "ODNN7"] {
                assert!(!shown.contains(piece), "{shown}");
            }
        }
    }
}

#[test]
fn two_lines_of_one_block_are_not_read_as_one_token() {
    let mut settings = settings();
    settings.masks.groups = vec!["all".into()];
    let answer = r#"{"content":[{"type":"text","text":"keys begin with ghp_\nabcdefghijklmnopqrstuvwxyz"}]}"#;
    let (_, last) = play(&gate(settings), call("k8s.get", ""), vec![Event::Answered(answer.into())]);
    assert_eq!(result(last).text, "keys begin with ghp_\nabcdefghijklmnopqrstuvwxyz");
}

#[test]
fn a_secret_in_pieces_stays_masked_while_its_answer_is_condensed() {
    let mut settings = Settings { max_result_bytes: 40, spill: true, ..settings() };
    settings.masks.groups = vec!["all".into()];
    let answer = r#"{"content":[{"type":"text","text":"password:"},{"type":"text","text":"hunter2-Tr0ub4dor"},
        {"type":"text","text":"and a line that makes the text too long"}]}"#;
    for form in [ResultForm::Text, ResultForm::PassThrough] {
        let (mut execution, _) = gate(Settings { form, ..settings.clone() }).begin(call("k8s.get", ""));
        let asked = execution.next(Event::Answered(answer.into()));
        assert_eq!(word(&asked), "condense:spill");
        let done = execution.next(Event::Condensed(Condensed::default()));
        let shown = format!("{asked:?} {done:?}");
        assert!(shown.contains("[MASKED_PASSWORD]") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn structured_content_stays_json_where_a_mask_rewrites_the_text_that_stands_for_it() {
    let mut settings = settings();
    let mask = crate::masking::CustomMask { pattern: r#""n":1}"#.into(), replacement: r#""n":"***"}"#.into() };
    settings.masks.custom = vec![mask];
    // The blank keeps the pattern from finding it in the answer as the server wrote it.
    let answer = r#"{"content":[],"structuredContent":{"n": 1}}"#;
    let result = result(play(&gate(settings), call("k8s.get", ""), vec![Event::Answered(answer.into())]).1);
    assert_eq!(result.text, r#"{"n":"***"}"#);
    assert!(crate::json::parse(result.structured.as_deref().unwrap()).is_ok(), "{:?}", result.structured);
}

#[test]
fn what_no_reader_sees_is_taken_out_before_masks_look_and_the_trace_says_so() {
    let mut settings = settings();
    settings.masks.groups = vec!["basic".into()];
    let answer = r#"{"content":[{"type":"text","text":"\u001b[1mkey\u001b[m gh\u200bp_abcdefghijklmnopqrstuvwxyz0123 \ud83d\udc68\u200d\ud83d\udc69"}],"structuredContent":{"said":"{\"a\":\"\\u202eb\"}"},"_meta":{"x/y":"c\u00add"}}"#;
    for form in [ResultForm::Text, ResultForm::PassThrough] {
        let settings = Settings { form, ..settings.clone() };
        let (_, last) = play(&gate(settings), call("k8s.get", ""), vec![Event::Answered(answer.into())]);
        let done = result(last);
        let note = "taken out as hidden: 2 terminal sequences, 1 direction mark, 1 zero-width character, 1 soft hyphen";
        assert_eq!(done.trace.iter().filter(|line| line.as_str() == note).count(), 1, "{:?}", done.trace);
        assert!(!done.clean);
        let shown =
            format!("{:?} {:?} {:?} {:?} {:?}", done.text, done.content, done.structured, done.more, done.answer);
        for hidden in ["u{1b}", "u001b", "[1m", "u{200b}", "u200b", "202e", "u{ad}", "u00ad", "ghp_"] {
            assert!(!shown.contains(hidden), "{hidden}: {shown}");
        }
        for stays in ["key [MASKED_GITHUB_TOKEN]", "cd"] {
            assert!(shown.contains(stays), "{stays}: {shown}");
        }
    }
    let message = "\u{1b}[31mno\u{1b}[0m \u{202e}gnp.exe".to_owned();
    let refused = failed(Failure::Rpc(RpcFailure { code: -32000, message }), Phase::Sent);
    let (_, last) = play(&gate(settings), call("k8s.get", ""), vec![refused]);
    let done = result(last);
    assert!(done.text.ends_with("no gnp.exe (code -32000)"), "{}", done.text);
    assert!(
        done.trace.contains(&"taken out as hidden: 2 terminal sequences, 1 direction mark".to_owned()),
        "{:?}",
        done.trace
    );
}
