//! Processes that do not belong to a job connect to the ports of its ranks.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::port::Port;
use mscclpp_bootstrap::{Bootstrap, Secret};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const RANKS: u32 = 4;
/// Limit of file descriptors of a rank.
const LIMIT: u64 = 128;
/// Descriptors that a rank opens in addition to those of its connections, as a job does.
const FILES: usize = 32;
const STRANGERS: usize = 400;

/// Sends what no rank sends, or nothing. The connection stays open.
fn stranger(port: u16, kind: usize) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    let bytes: &[u8] = match kind % 8 {
        0 => b"GET / HTTP/1.1\r\n\r\n",
        1 => b"MSCB\x04\x00",
        2 => b"MSCB\x04\x00\x00\x00\xff\xff\xff\xff",
        3 => b"MSCB\x04\x00\x01\x00\x04\x00\x00\x00",
        _ => &[],
    };
    // The rank may have closed the connection already.
    let _ = stream.write_all(bytes);
    stream
}

/// Sends the first frame of a rank, byte by byte and without end.
fn drip(port: u16) {
    while let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
        let bytes = b"MSCB\x04\x00\x00\x00\x20\x00\x00\x00".iter().chain(std::iter::repeat(&0));
        for byte in bytes {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

struct Rank(Child);

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn job_with_few_descriptors_makes_its_calls_among_strangers() {
    let port = Port::new();
    let secret = Secret::random().unwrap().to_hex();
    // This process has the other ends of all connections.
    let limit = getrlimit(Resource::Nofile);
    let enough = Some(4 * STRANGERS as u64 + 1024);
    setrlimit(Resource::Nofile, Rlimit { current: enough.min(limit.maximum.or(enough)), maximum: limit.maximum })
        .unwrap();
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["strangers::rank_of_a_job", "--exact", "--ignored", "--nocapture"]);
        command.envs([("RANK", rank.to_string()), ("WORLD_SIZE", RANKS.to_string())]);
        command.envs([("MASTER_ADDR", "127.0.0.1".to_owned()), ("MASTER_PORT", port.number.to_string())]);
        command.env("MSCCLPP_SECRET", &secret).stdin(Stdio::piped()).stdout(Stdio::piped());
        Rank(command.spawn().unwrap())
    };
    let mut ranks = vec![start(0)];
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port.number)).is_err() {
        thread::sleep(Duration::from_millis(5));
    }
    let mut strangers: Vec<_> = (0..STRANGERS).map(|kind| stranger(port.number, kind)).collect();
    {
        let port = port.number;
        thread::spawn(move || drip(port));
    }
    ranks.extend((1..RANKS).map(start));
    // All ranks have joined, and rank 0 prints the ports of all.
    let mut outputs: Vec<_> =
        ranks.iter_mut().map(|rank| BufReader::new(rank.0.stdout.take().unwrap()).lines()).collect();
    let ports = outputs[0].find_map(|line| line.unwrap().split_once("ports ").map(|(_, ports)| ports.to_owned()));
    let ports: Vec<u16> = ports.expect("rank 0 joins").split(' ').map(|port| port.parse().unwrap()).collect();
    for port in ports {
        strangers.extend((0..STRANGERS).map(|_| stranger(port, 7)));
    }
    for rank in &mut ranks {
        drop(rank.0.stdin.take());
    }
    let start = Instant::now();
    for (rank, output) in outputs.iter_mut().enumerate() {
        let done = output.find(|line| line.as_ref().is_ok_and(|line| line.contains("done")));
        assert!(done.is_some(), "rank {rank} fails");
    }
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(ranks.iter_mut().all(|rank| rank.0.wait().unwrap().success()));
    drop(strangers);
}

#[test]
#[ignore = "a process of another test"]
fn rank_of_a_job() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum: limit.maximum }).unwrap();
    let group = Bootstrap::from_env().unwrap();
    let rank = group.rank();
    if rank == 0 {
        let port = |rank| group.rank_info(rank).unwrap().address.unwrap().port().to_string();
        println!("ports {}", (0..RANKS).map(port).collect::<Vec<_>>().join(" "));
    }
    // The strangers come before the next call.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    let mut files = Vec::new();
    for round in 0..FILES {
        files.push(File::open("/dev/null").unwrap());
        assert_eq!(group.all_gather(&[round as u8]).unwrap().concat(), [round as u8; RANKS as usize]);
        let peer = rank ^ 1;
        files.push(std::os::fd::OwnedFd::from(group.stream(peer, round as u64).unwrap()).into());
    }
    group.barrier().unwrap();
    println!("done");
}
