//! What masks leave of an answer, whatever blocks it comes in.

use super::*;

#[test]
fn a_picture_survives_every_mask_and_a_secret_over_two_blocks_none() {
    let mut settings = settings();
    settings.masks.groups = vec!["all".into()];
    let picture = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
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
