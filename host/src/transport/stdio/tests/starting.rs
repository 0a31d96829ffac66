//! Starting a program, and the errors if it does not start.

use super::*;

#[tokio::test]
async fn a_program_gets_exactly_its_environment_arguments_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let args = ["-c", "read line", "name", "a b", "$HOME", ""];
    let mut program = program("sh", &args);
    program.env.insert("KEY".to_owned(), "a value".to_owned());
    program.working_dir = Some(folder.clone());
    let (transport, _events) = start(&program).await;
    let pid = transport.pid().unwrap();
    let words = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    // They appear a moment after the program has started.
    until("its words", || !words("cmdline").is_empty()).await;
    let env: String = program.env.iter().map(|(key, value)| format!("{key}={value}\0")).collect();
    assert_eq!(words("environ"), env);
    assert_eq!(words("cmdline"), format!("sh\0{}\0", args.join("\0")));
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), folder);
    assert_eq!(words("stat").split(' ').nth(4), Some(pid.to_string().as_str()), "it leads its group");
}

#[tokio::test]
async fn the_path_of_the_program_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/sh", folder.path().join("a-name-of-its-own")).unwrap();
    let mut program = program("a-name-of-its-own", &["-c", "echo '{}'"]);
    program.env.insert("PATH".to_owned(), folder.path().to_str().unwrap().to_owned());
    let (_transport, mut events) = start(&program).await;
    assert_eq!(events.rest().await, (vec!["{}".to_owned()], RequestError::sent(exited(0, ""))));
}

#[tokio::test]
async fn a_program_that_does_not_start_says_why_and_how_to_mend_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let plain = file("plain", "#!/bin/sh\n");
    let orphaned = file("orphaned", "#!/no/such/interpreter\n");
    std::fs::set_permissions(&orphaned, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let here = folder.path().to_str().unwrap().to_owned();
    let in_folder = |path: String| Program { working_dir: Some(path.into()), ..shell(":") };
    let rows = [
        (
            program("npx-of-nobody", &[]),
            "\"npx-of-nobody\" was not found in PATH; install it, or give its full path".to_owned(),
        ),
        (
            program("npx -y pkg", &[]),
            "\"npx -y pkg\" was not found; if it holds arguments, move them to args".to_owned(),
        ),
        (program("./no/such", &[]), "\"./no/such\" was not found; check the path, or install it".to_owned()),
        (program("", &[]), "the command is empty; name the program to run".to_owned()),
        (
            Program { env: BTreeMap::new(), ..program("npx-of-nobody", &[]) },
            "\"npx-of-nobody\" was not found, and its environment has no PATH; give its full path".to_owned(),
        ),
        (
            program(&plain, &[]),
            format!("{plain:?} is not executable; make it executable with `chmod +x`, or run its interpreter on it"),
        ),
        (
            program(&orphaned, &[]),
            format!("{orphaned:?} exists, but the interpreter in its first line does not; install that"),
        ),
        (program(&here, &[]), format!("{here:?} is a folder; give the program in it")),
        (
            in_folder(format!("{here}/none")),
            format!("working_dir \"{here}/none\" does not exist; create it, or correct the path"),
        ),
        (in_folder(plain.clone()), format!("working_dir {plain:?} is not a folder")),
        (program("sh", &["a\0b"]), "\"sh\" could not be started: nul byte found in provided data".to_owned()),
    ];
    for (program, words) in rows {
        let (sender, mut events) = mpsc::unbounded_channel();
        let failed = open(&program, Arc::new(Told(sender))).await.err();
        assert_eq!(failed, Some(RequestError::unsent(Failure::NoProgram(words))));
        assert!(events.recv().await.is_none(), "what was never open is not closed");
    }
}
