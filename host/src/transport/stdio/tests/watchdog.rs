//! Nothing outlives this process. Each test starts its own binary again, as a victim to kill.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::super::descendants;
use super::*;

/// Ignores SIGTERM and so does its child, until they are killed; prints both ids.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo \"[$$, $!]\"; while :; do sleep 1000; done";

const ROLE: &str = "TOOLGATE_TEST_VICTIM";

/// Starts this test again as a victim, and reads the process ids that it prints.
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

/// Prints the ids, and waits to be killed; a test that ends first closes the pipe.
fn print_and_wait(pids: &[u32]) {
    println!("pids: {pids:?}");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Returns our watchdog, which gets its name a moment after it starts.
async fn watchdog() -> u32 {
    const NAME: &[u8] = b"\0toolgate-watchdog\0";
    let is_dog = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.windows(NAME.len()).any(|word| word == NAME)
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

/// Ignores SIGTERM too, and has descendants in sessions of their own, outside the group.
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

/// A parent that starts a server and its watchdog, and closes the watchdog's pipe long before it ends.
#[cfg(target_os = "linux")]
const LINGERING: &str = "import os, subprocess, sys
script, server = sys.argv[1:]
server = subprocess.Popen(['sh', '-c', server], preexec_fn=os.setpgrp, stdout=subprocess.PIPE, text=True)
line = server.stdout.readline().strip()
watchdog = ['sh', '-c', script, 'toolgate-watchdog', str(os.getpid())]
dog = subprocess.Popen(watchdog, stdin=subprocess.PIPE, text=True)
dog.stdin.write(f'+ {server.pid} 1\\n')
dog.stdin.close()
print(line.rstrip(']') + f', {dog.pid}]', flush=True)
sys.stdin.read()";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nobody_is_stopped_before_the_process_has_ended() {
    use std::{cell::RefCell, collections::BTreeSet};

    let mut command = Command::new("python3");
    command.args(["-c", LINGERING, super::super::watchdog::SCRIPT, SCATTERED]);
    let mut parent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let pids = numbers(&line);
    // It has seen the end of its pipe, and keeps sleeping, longer than for anything else.
    let sleeps = RefCell::new(BTreeSet::new());
    let sleeps_on = || {
        sleeps.borrow_mut().extend(descendants::of(pids[3]).iter().map(|process| process.id));
        sleeps.borrow().len() > 25
    };
    until("a watchdog that sleeps", sleeps_on).await;
    let states: Vec<_> = pids[..3].iter().map(|pid| state(*pid)).collect();
    parent.kill().unwrap();
    parent.wait().unwrap();
    until_ended(&pids).await;
    assert_eq!(states, ["S", "S", "S"]);
}

/// Returns the state of a process as one letter.
#[cfg(target_os = "linux")]
fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").map(|(_, rest)| rest[..1].to_owned()).unwrap_or_default()
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
    let Failure::Exited(ProcessExit { code: Some(9), stderr, .. }) = why.failure else { panic!("{why:?}") };
    assert!(stderr.ends_with("noise \n\nlast words") && stderr.len() <= 4096, "{stderr:?}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    print_and_wait(&[peak.trim().trim_end_matches(" kB").parse().unwrap()]);
}
