//! That nothing outlives this process. Each test starts its own binary again, as a victim that is killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::super::descendants;
use super::*;

/// Ends when its input does, not before SIGTERM has been ignored; its child is as stubborn. Says both ids.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo \"[$$, $!]\"; while :; do sleep 1000; done";

const ROLE: &str = "TOOLGATE_TEST_VICTIM";

/// Starts this test once more, as a victim, and reads the process ids that it prints.
fn victim(test: &str) -> (Child, Vec<u32>) {
    let module = module_path!().split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("{module}::{test}"), "--exact", "--nocapture"]).env(ROLE, "yes");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.as_mut().unwrap());
    let line = output.lines().map(Result::unwrap).find(|line| line.contains("pids: ")).expect("it prints its ids");
    (child, numbers(line.split_once("pids: ").unwrap().1))
}

fn is_victim() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Tells the ids, and waits to be killed; the test that ends first closes the pipe.
fn print_and_wait(pids: &[u32]) {
    println!("pids: {pids:?}");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Our watchdog. It has its name a moment after it starts.
async fn watchdog() -> u32 {
    let is_dog = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.ends_with(b"toolgate-watchdog\0")
    };
    let find = || descendants::of(std::process::id()).iter().map(|process| process.id).find(is_dog);
    until("a watchdog", || find().is_some()).await;
    find().unwrap()
}

#[tokio::test]
async fn nothing_outlives_a_process_that_is_killed() {
    if !is_victim() {
        let (mut child, pids) = victim("nothing_outlives_a_process_that_is_killed");
        assert_eq!(pids.len(), 6, "{pids:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        return until_ended(&pids).await;
    }
    let (_stubborn, mut stubborn) = start(&shell(STUBBORN)).await;
    let (_polite, mut polite) = start(&shell("sleep 1000 & echo \"[$$, $!]\"; exec cat")).await;
    let (gone, _) = start(&shell("exec cat")).await;
    gone.close().await;
    let others = vec![watchdog().await, gone.pid().unwrap()];
    let pids = [numbers(&stubborn.message().await), numbers(&polite.message().await), others];
    print_and_wait(&pids.concat());
}

/// As stubborn, with descendants in sessions of their own, which left the group.
const SCATTERED: &str = "trap '' TERM; setsid sh -c 'setsid sleep 1000 & echo \"[$PPID, $$, $!]\"; wait' &
while :; do sleep 1000; done";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_left_its_group_does_not_outlive_a_process_that_is_killed() {
    if !is_victim() {
        let (mut child, pids) = victim("what_left_its_group_does_not_outlive_a_process_that_is_killed");
        assert_eq!(pids.len(), 4, "{pids:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        return until_ended(&pids).await;
    }
    let (_transport, mut events) = start(&shell(SCATTERED)).await;
    print_and_wait(&[numbers(&events.message().await), vec![watchdog().await]].concat());
}

#[tokio::test]
async fn nothing_outlives_a_process_that_ends_without_a_word() {
    if !is_victim() {
        let (mut child, pids) = victim("nothing_outlives_a_process_that_ends_without_a_word");
        assert_eq!(pids.len(), 3, "{pids:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        return until_ended(&pids).await;
    }
    let (_transport, mut events) = start(&shell(STUBBORN)).await;
    print_and_wait(&[numbers(&events.message().await), vec![watchdog().await]].concat());
    std::process::exit(0);
}

#[tokio::test]
async fn a_dead_watchdog_is_replaced_and_its_charges_are_not_forgotten() {
    if !is_victim() {
        let (mut child, pids) = victim("a_dead_watchdog_is_replaced_and_its_charges_are_not_forgotten");
        assert_eq!(pids.len(), 6, "{pids:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        return until_ended(&pids).await;
    }
    let (_first, mut first) = start(&shell(STUBBORN)).await;
    let killed = watchdog().await;
    let dog = rustix::process::Pid::from_raw(killed as i32).unwrap();
    rustix::process::kill_process(dog, rustix::process::Signal::KILL).unwrap();
    until_ended(&[killed]).await;
    let (_second, mut second) = start(&shell(STUBBORN)).await;
    let dogs = vec![killed, watchdog().await];
    assert_ne!(dogs[0], dogs[1]);
    print_and_wait(&[numbers(&first.message().await), numbers(&second.message().await), dogs].concat());
}

#[tokio::test]
async fn a_flood_of_standard_error_takes_no_memory_and_stops_nobody() {
    if !is_victim() {
        let (mut child, peak) = victim("a_flood_of_standard_error_takes_no_memory_and_stops_nobody");
        drop(child.stdin.take());
        child.wait().unwrap();
        return assert!(peak[0] < 64 << 10, "{} KiB at most", peak[0]);
    }
    let flood = "import os
block = (b'noise ' * 20 + b'\\n') * 10000
for _ in range(200 * (1 << 20) // len(block)): os.write(2, block)
os.write(2, b'\\nlast words\\n')
print('[]')
os._exit(9)";
    let (_transport, mut events) = start(&python(flood)).await;
    let (messages, why) = events.rest().await;
    assert_eq!(messages, ["[]"]);
    let Failure::Exited(Exit { code: Some(9), stderr, .. }) = why.failure else { panic!("{why:?}") };
    assert!(stderr.ends_with("noise \n\nlast words") && stderr.len() <= 4096, "{stderr:?}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    print_and_wait(&[peak.trim().trim_end_matches(" kB").parse().unwrap()]);
}
