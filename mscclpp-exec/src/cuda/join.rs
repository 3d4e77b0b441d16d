//! Ranks in other processes, or in other threads with a group of their own: who they are, and their memory. That of ranks on
//! other nodes cannot be mapped; see [`nodes`](super::nodes).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::buffers::DeviceSlice;
use super::device::Device;
use super::driver::Export;
use super::memory::RemoteMemory;
use super::nodes::{Memories, Shown, Stagings, Window};
use super::peer;
use super::proxy::Proxies;
use crate::bootstrap::Bootstrap;
use crate::error::{Cause, Error};
use crate::patience::Patience;
use crate::process::{Options, Session};
use crate::shm::Sent;

/// The numbers of connections between nodes begin here: one for each plan.
const STREAMS: u64 = 0x6375_6461 << 32;

/// How long the end of another rank may take to be known here.
const HEARSAY: Duration = Duration::from_millis(200);

/// A rank's side of its group. Its calls are made by all ranks, in the same order.
pub(super) struct Group {
    session: Mutex<Session>,
    device: Device,
    pub(super) rank: u32,
    members: Vec<Member>,
    bootstrap: Arc<Bootstrap>,
    /// By rank.
    pub(super) nodes: Vec<u32>,
    /// Memory that ranks of different nodes tell each other of; `None` if there is one node.
    pub(super) far: Option<Arc<Memories>>,
    pub(super) stagings: Stagings,
    /// Plans that were connected.
    connected: AtomicU64,
    /// Allocations of callers that the ranks have told each other of.
    known: Mutex<Known>,
    broken: AtomicBool,
}

/// What ranks say of themselves.
#[derive(Serialize, Deserialize)]
struct Member {
    process: u64,
    ordinal: u32,
    uuid: [u8; 16],
    label: String,
    multicast: bool,
}

#[derive(Default)]
struct Known {
    /// Own ones, by id: the first byte, and what shows them to others.
    mine: BTreeMap<u64, (u64, Option<Memory>)>,
    /// Of others, by rank and id.
    theirs: BTreeMap<(u32, u64), Memory>,
}

/// Memory of a rank as this one reaches it.
#[derive(Clone)]
pub(super) enum Memory {
    /// Of this process: by its own address, and shown to other nodes.
    Here { address: u64, _shown: Option<Arc<Shown>> },
    /// Mapped.
    Mapped(Arc<RemoteMemory>),
    /// On another node.
    Far(Arc<Window>),
}

impl Memory {
    pub(super) fn address(&self) -> u64 {
        match self {
            Self::Here { address, .. } => *address,
            Self::Mapped(memory) => memory.address(),
            Self::Far(window) => window.address(),
        }
    }
}

/// What a rank sends of its memories.
#[derive(Serialize, Deserialize)]
enum Offer {
    /// It cannot take part, for this reason.
    Failed(String),
    Memories(Vec<Piece>),
}

#[derive(Clone, Serialize, Deserialize)]
struct Piece {
    address: u64,
    bytes: u64,
    /// As 64 bytes; if there are none it is the next file.
    ipc: Vec<u8>,
    /// What it is called on other nodes.
    number: u64,
}

/// Parts of a caller's slices.
#[derive(Default, Serialize, Deserialize)]
struct Registration {
    /// Ids of allocations that are gone.
    gone: Vec<u64>,
    /// Id, first byte in the allocation, bytes; id 0: nothing.
    slices: Vec<(u64, u64, u64)>,
    /// Ids that are new, whose memories follow.
    new: Vec<u64>,
}

/// Own allocations, for the others and for this rank.
#[derive(Default)]
struct Exported {
    pieces: Vec<Piece>,
    files: Vec<OwnedFd>,
    own: Vec<Memory>,
}

/// What a call brought, by rank.
struct Traded {
    memories: Vec<Vec<Memory>>,
    others: Vec<Vec<u8>>,
}

impl Group {
    /// Lets the ranks of a group know one another.
    pub(super) fn new(bootstrap: &Arc<Bootstrap>, device: &Device) -> Result<Self, Error> {
        let options = Options::default().deadline(bootstrap.options().deadline);
        let mut session = Session::new(Arc::clone(bootstrap), options)?;
        let properties = device.properties();
        let own = Member {
            process: device.driver().process(),
            ordinal: properties.ordinal,
            uuid: properties.uuid,
            label: properties.label(),
            multicast: properties.multicast,
        };
        let rank = bootstrap.rank();
        let sent = session.exchange_all("world of CUDA devices", &encode(&own)?, &[])?;
        let mut members = Vec::with_capacity(sent.len());
        for (peer, sent) in (0_u32..).zip(sent) {
            members.push(decode(peer, if peer == rank { encode(&own)? } else { sent.bytes })?);
        }
        let (session, known, broken) = (Mutex::new(session), Mutex::default(), AtomicBool::new(false));
        let nodes = (0..bootstrap.num_ranks()).map(|peer| bootstrap.node_of(peer)).collect::<Result<Vec<_>, _>>()?;
        let far = (bootstrap.num_nodes() > 1).then(Arc::default);
        let (bootstrap, device, connected) = (Arc::clone(bootstrap), device.clone(), AtomicU64::new(0));
        let stagings = Stagings::default();
        let group = Self { session, device, rank, members, bootstrap, nodes, far, stagings, connected, known, broken };
        let connected = group.connect();
        group.agree("connection of CUDA devices", connected)?;
        Ok(group)
    }

    /// Lets the device reach those of other ranks of this process.
    fn connect(&self) -> Result<(), Error> {
        let own = &self.members[self.rank as usize];
        for (_, member) in self.on_node().filter(|(_, member)| member.process == own.process) {
            if member.ordinal != own.ordinal {
                peer::connect_to(&self.device, member.ordinal, &member.label)?;
            }
        }
        Ok(())
    }

    /// Numbers of the devices of this process' ranks.
    pub(super) fn ordinals_here(&self) -> impl Iterator<Item = u32> {
        let process = self.members[self.rank as usize].process;
        self.on_node().filter(move |(_, member)| member.process == process).map(|(_, member)| member.ordinal)
    }

    /// Ranks of this node.
    fn on_node(&self) -> impl Iterator<Item = (u32, &Member)> {
        let node = self.nodes[self.rank as usize];
        (0..).zip(&self.members).filter(move |(rank, _)| self.nodes[*rank as usize] == node)
    }

    /// Ranks on the same device as this one, this one included.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = u32> {
        let own = self.members[self.rank as usize].uuid;
        (0..).zip(&self.members).filter(move |(_, member)| member.uuid == own).map(|(rank, _)| rank)
    }

    /// What a rank's device is called, and whether it has multicast objects.
    pub(super) fn multicast(&self, rank: u32) -> (String, bool) {
        let Member { label, multicast, .. } = &self.members[rank as usize];
        (label.clone(), *multicast)
    }

    /// Whether two ranks are on the same device.
    pub(super) fn on_one_device(&self, rank: u32, other: u32) -> bool {
        self.members[rank as usize].uuid == self.members[other as usize].uuid
    }

    /// A call in which every rank says something, and may send files. Returns what each said, by rank.
    ///
    /// # Errors
    /// [`Error::Lost`], and those of a call of all ranks.
    pub(super) fn gather<T: for<'a> Deserialize<'a>>(
        &self,
        text: &str,
        bytes: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<Vec<(T, Vec<OwnedFd>)>, Error> {
        let sent = self.session()?.exchange_all(text, bytes, files)?;
        let read = |(peer, sent): (u32, Sent)| {
            let bytes = if peer == self.rank { bytes.to_vec() } else { sent.bytes };
            Ok((decode(peer, bytes)?, sent.files))
        };
        (0..).zip(sent).map(read).collect::<Result<_, _>>().inspect_err(|error| self.give_up(error))
    }

    /// Why there can be no more calls, if so.
    pub(super) fn check(&self) -> Result<(), Error> {
        if !self.broken.load(Acquire) {
            return Ok(());
        }
        let why = self.session()?.broken.clone().unwrap_or_else(|| "an earlier launch failed".into());
        Err(Error::Broken { why })
    }

    /// Connects a plan's proxy to the ranks on other nodes that it needs. All ranks of the group call this, those too that need
    /// none.
    pub(super) fn connect_nodes(&self, proxies: Option<&Proxies>) -> Result<(), Error> {
        let number = STREAMS + self.connected.fetch_add(1, Relaxed);
        let connect = |proxies: &Proxies| -> Result<(), Error> {
            let mut peers = proxies.unconnected().into_iter();
            peers.try_for_each(|peer| proxies.connect(peer, self.bootstrap.stream(peer, number)?))
        };
        proxies.map_or(Ok(()), connect).inspect_err(|error| self.give_up(error))
    }

    /// What ended the group, if that was not a launch of its own.
    pub(super) fn find_cause(&self) -> Option<Cause> {
        let mut patience = Patience::new(HEARSAY);
        loop {
            match self.bootstrap.check_alive() {
                Err(error) => return Some(Cause::Group(Box::new(error))),
                Ok(()) if patience.is_over() => return None,
                Ok(()) => std::thread::sleep(HEARSAY / 100),
            }
        }
    }

    pub(super) fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.bootstrap
    }

    /// Ends the group: counters of its ranks no longer fit together.
    pub(super) fn give_up(&self, error: &Error) {
        if let Ok(mut session) = self.session() {
            session.give_up(error);
        }
        self.broken.store(true, Release);
    }

    fn session(&self) -> Result<MutexGuard<'_, Session>, Error> {
        match self.session.try_lock() {
            Ok(session) => Ok(session),
            Err(TryLockError::WouldBlock) => Err(Error::Busy),
            Err(TryLockError::Poisoned(session)) => Ok(session.into_inner()),
        }
    }

    /// A call in which every rank says whether it can go on.
    ///
    /// # Errors
    /// This rank's own; [`Error::Lost`] with another one's words.
    pub(super) fn agree(&self, text: &str, mine: Result<(), Error>) -> Result<(), Error> {
        self.share(text, mine.map(|()| Vec::new())).map(|_| ())
    }

    /// A call in which every rank shares memories, each with its first address and bytes; each is a whole allocation. Returns
    /// by rank where this one reaches them.
    ///
    /// # Errors
    /// As [`agree`](Self::agree), and [`Error::NotMapped`].
    pub(super) fn share(&self, text: &str, mine: Result<Vec<DeviceSlice>, Error>) -> Result<Vec<Vec<Memory>>, Error> {
        Ok(self.trade(text, mine, &[])?.memories)
    }

    /// The same, with bytes beside them.
    fn trade(&self, text: &str, mine: Result<Vec<DeviceSlice>, Error>, beside: &[u8]) -> Result<Traded, Error> {
        self.check()?;
        let offer = mine.and_then(|slices| self.export(&slices));
        // Who cannot go on takes part all the same, or the others would wait for it.
        let (message, files) = match &offer {
            Ok(exported) => (Offer::Memories(exported.pieces.clone()), exported.files.as_slice()),
            Err(error) => (Offer::Failed(error.to_string()), &[][..]),
        };
        let bytes = encode(&(message, beside.to_vec()))?;
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let sent = self.session()?.exchange_all(text, &bytes, &files);
        let own = offer.inspect_err(|error| self.give_up(error))?.own;
        let offers = || -> Result<_, Error> {
            let mut offers = Vec::new();
            for (peer, sent) in (0_u32..).zip(sent?) {
                if peer == self.rank {
                    offers.push((Vec::new(), beside.to_vec(), sent.files));
                    continue;
                }
                let (offer, beside): (Offer, Vec<u8>) = decode(peer, sent.bytes)?;
                match offer {
                    Offer::Memories(pieces) => offers.push((pieces, beside, sent.files)),
                    Offer::Failed(why) => return Err(Error::Lost { peer, why }),
                }
            }
            Ok(offers)
        };
        // That somebody cannot go on all know, and there is nothing to map.
        let offers = offers().inspect_err(|error| self.give_up(error))?;
        let received = || -> Result<_, Error> {
            let (mut memories, mut others) = (Vec::new(), Vec::new());
            for (peer, (pieces, beside, files)) in (0_u32..).zip(offers) {
                others.push(beside);
                let mut files = files.into_iter();
                let import = |piece| self.import(peer, piece, &mut files);
                memories.push(match peer == self.rank {
                    true => own.clone(),
                    false => pieces.into_iter().map(import).collect::<Result<_, _>>()?,
                });
            }
            Ok(Traded { memories, others })
        };
        let received = received();
        // Nobody gives memory back before the others have mapped it.
        let mapped = match &received {
            Ok(_) => Offer::Memories(Vec::new()),
            Err(error) => Offer::Failed(error.to_string()),
        };
        let ended = self.session()?.exchange_all(&format!("end of {text}"), &encode(&mapped)?, &[]);
        let ended = || -> Result<(), Error> {
            for (peer, sent) in (0_u32..).zip(ended?).filter(|(peer, _)| *peer != self.rank) {
                if let Offer::Failed(why) = decode(peer, sent.bytes)? {
                    return Err(Error::Lost { peer, why });
                }
            }
            Ok(())
        };
        received.and_then(|received| ended().map(|()| received)).inspect_err(|error| self.give_up(error))
    }

    /// A rank that says what it cannot mean.
    pub(super) fn malformed(&self, peer: u32) -> Error {
        let error = Error::Lost { peer, why: "it sent what this rank cannot read".into() };
        self.give_up(&error);
        error
    }

    /// Own allocations for the others.
    fn export(&self, slices: &[DeviceSlice]) -> Result<Exported, Error> {
        let own = self.members[self.rank as usize].process;
        let all_here = self.on_node().all(|(_, member)| member.process == own);
        let mut exported = Exported::default();
        for &slice in slices {
            let shown = self.far.as_ref().map(|far| Arc::new(far.show(slice)));
            let number = shown.as_ref().map_or(0, |shown| shown.number());
            let DeviceSlice { address, bytes } = slice;
            let mut piece = Piece { address, bytes, ipc: Vec::new(), number };
            if !all_here {
                match self.device.driver().export(address)? {
                    Export::Ipc(handle) => piece.ipc = handle.to_vec(),
                    Export::File(file) => exported.files.push(file),
                }
            }
            exported.pieces.push(piece);
            exported.own.push(Memory::Here { address, _shown: shown });
        }
        Ok(exported)
    }

    fn import(&self, peer: u32, piece: Piece, files: &mut impl Iterator<Item = OwnedFd>) -> Result<Memory, Error> {
        let [own, other] = [self.rank, peer].map(|rank| &self.members[rank as usize]);
        if let Some(far) = &self.far
            && self.nodes[peer as usize] != self.nodes[self.rank as usize]
        {
            return Ok(Memory::Far(Arc::new(far.add(peer, piece.number, piece.bytes)?)));
        }
        if other.process == own.process {
            return Ok(Memory::Here { address: piece.address, _shown: None });
        }
        let malformed = || Error::Lost { peer, why: "it sent memory without a handle".into() };
        let export = match piece.ipc.as_slice() {
            [] => Export::File(files.next().ok_or_else(malformed)?),
            handle => Export::Ipc(handle.try_into().map_err(|_| malformed())?),
        };
        let mapped = RemoteMemory::new(self.device.driver(), export, piece.bytes);
        mapped.map(|memory| Memory::Mapped(Arc::new(memory))).map_err(|error| Error::NotMapped {
            rank: self.rank,
            device: own.label.clone(),
            peer,
            other: other.label.clone(),
            error: Box::new(error),
        })
    }

    /// A call in which every rank tells where slices of its device's memory lie. Allocations that the others know already
    /// are not sent again; one that was freed meanwhile is not taken for its successor at the same address. Returns by rank
    /// where this one reaches them, and what must be kept as long as they are used.
    pub(super) fn register(
        &self,
        mine: Result<Vec<DeviceSlice>, Error>,
    ) -> Result<(Vec<Vec<DeviceSlice>>, Vec<Memory>), Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = mine.and_then(|mine| Ok((self.find(&mut known, &mine)?, mine)));
        let (registration, new, mine) = match found {
            Ok(((registration, new), mine)) => (registration, Ok(new), mine),
            Err(error) => (Registration::default(), Err(error), Vec::new()),
        };
        let ids = registration.new.clone();
        let registration = encode(&registration)?;
        let Traded { memories, others } = self.trade("registration of buffers", new, &registration)?;
        let (mut all, mut kept) = (Vec::with_capacity(others.len()), Vec::new());
        for ((peer, memories), bytes) in (0_u32..).zip(memories).zip(others) {
            if peer == self.rank {
                for (id, memory) in ids.iter().zip(memories) {
                    known.mine.entry(*id).and_modify(|(_, shown)| *shown = Some(memory));
                }
                all.push(mine.clone());
                continue;
            }
            let Registration { gone, slices, new } = decode(peer, bytes)?;
            for id in gone {
                known.theirs.remove(&(peer, id));
            }
            known.theirs.extend(new.into_iter().map(|id| (peer, id)).zip(memories));
            let mut theirs = Vec::with_capacity(slices.len());
            for (id, at, bytes) in slices {
                if id == 0 {
                    theirs.push(DeviceSlice::EMPTY);
                    continue;
                }
                let unknown = || Error::Lost { peer, why: format!("it registered memory {id} that it never shared") };
                let memory = known.theirs.get(&(peer, id)).ok_or_else(unknown)?;
                theirs.push(DeviceSlice { address: memory.address() + at, bytes });
                kept.push(memory.clone());
            }
            all.push(theirs);
        }
        Ok((all, kept))
    }

    /// What this rank says of its slices, and allocations that the others do not know.
    fn find(&self, known: &mut Known, mine: &[DeviceSlice]) -> Result<(Registration, Vec<DeviceSlice>), Error> {
        let driver = self.device.driver();
        let is_there = |id: u64, base: u64| driver.allocation(base).is_ok_and(|found| found.id == id);
        let gone: Vec<u64> =
            known.mine.iter().filter(|&(&id, &(base, _))| !is_there(id, base)).map(|(&id, _)| id).collect();
        for id in &gone {
            known.mine.remove(id);
        }
        let mut registration = Registration { gone, slices: Vec::with_capacity(mine.len()), new: Vec::new() };
        let mut new = Vec::new();
        for slice in mine {
            if slice.bytes == 0 {
                registration.slices.push((0, 0, 0));
                continue;
            }
            let found = driver.allocation(slice.address)?;
            let at = slice.address - found.base;
            if at + slice.bytes > found.bytes {
                return Err(Error::Tensor {
                    found: format!(
                        "of {} bytes, {} of which lie in its first allocation",
                        slice.bytes,
                        found.bytes - at
                    ),
                    expected: "one that lies in one, as of `World::alloc`".into(),
                });
            }
            if let Entry::Vacant(entry) = known.mine.entry(found.id) {
                entry.insert((found.base, None));
                registration.new.push(found.id);
                new.push(DeviceSlice { address: found.base, bytes: found.bytes });
            }
            registration.slices.push((found.id, at, slice.bytes));
        }
        Ok((registration, new))
    }
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    postcard::to_allocvec(value).map_err(|error| Error::Internal(error.to_string()))
}

fn decode<T: for<'a> Deserialize<'a>>(peer: u32, bytes: Vec<u8>) -> Result<T, Error> {
    let malformed =
        |error: postcard::Error| Error::Lost { peer, why: format!("it sent what this one cannot read: {error}") };
    postcard::from_bytes(&bytes).map_err(malformed)
}
