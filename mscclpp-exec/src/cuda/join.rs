//! Ranks in other processes, or in other threads with a group of their own: who they are, and their memory.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use serde::{Deserialize, Serialize};

use super::buffers::DeviceSlice;
use super::device::Device;
use super::driver::Export;
use super::memory::RemoteMemory;
use super::peer;
use crate::bootstrap::Bootstrap;
use crate::error::Error;
use crate::process::{Options, Session};

/// A rank's side of its group. Its calls are made by all ranks, in the same order.
pub(super) struct Group {
    session: Mutex<Session>,
    device: Device,
    pub(super) rank: u32,
    members: Vec<Member>,
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
}

#[derive(Default)]
struct Known {
    /// Own ones, by id: the first byte.
    mine: BTreeMap<u64, u64>,
    /// Of others, by rank and id.
    theirs: BTreeMap<(u32, u64), Memory>,
}

/// Memory of a rank as this one reaches it.
#[derive(Clone)]
pub(super) enum Memory {
    /// Of this process: by its own address.
    Here(u64),
    /// Mapped.
    Mapped(Arc<RemoteMemory>),
}

impl Memory {
    pub(super) fn address(&self) -> u64 {
        match self {
            Self::Here(address) => *address,
            Self::Mapped(memory) => memory.address(),
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
}

/// Parts of a caller's slices.
#[derive(Serialize, Deserialize)]
struct Registration {
    /// Ids of allocations that are gone.
    gone: Vec<u64>,
    /// Id, first byte in the allocation, bytes; id 0: nothing.
    slices: Vec<(u64, u64, u64)>,
    /// Ids that are new, whose memories follow.
    new: Vec<u64>,
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
        if bootstrap.num_nodes() > 1 {
            let what = "join ranks of several nodes in one world of CUDA devices".into();
            return Err(Error::System { what, why: format!("they are on {} nodes", bootstrap.num_nodes()) });
        }
        let properties = device.properties();
        let own = Member {
            process: device.driver().process(),
            ordinal: properties.ordinal,
            uuid: properties.uuid,
            label: properties.label(),
        };
        let rank = bootstrap.rank();
        let sent = session.exchange("world of CUDA devices", &encode(&own)?, &[])?;
        let mut members = Vec::with_capacity(sent.len());
        for (peer, sent) in (0_u32..).zip(sent) {
            members.push(decode(peer, if peer == rank { encode(&own)? } else { sent.bytes })?);
        }
        let (session, known, broken) = (Mutex::new(session), Mutex::default(), AtomicBool::new(false));
        let group = Self { session, device: device.clone(), rank, members, known, broken };
        let connected = group.connect();
        group.agree("connection of CUDA devices", connected)?;
        Ok(group)
    }

    /// Lets the device reach those of other ranks of this process.
    fn connect(&self) -> Result<(), Error> {
        let own = &self.members[self.rank as usize];
        for member in self.members.iter().filter(|member| member.process == own.process) {
            if member.ordinal != own.ordinal {
                peer::connect_to(&self.device, member.ordinal, &member.label)?;
            }
        }
        Ok(())
    }

    /// Ranks on the same device as this one, this one included.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = u32> {
        let own = self.members[self.rank as usize].uuid;
        (0..).zip(&self.members).filter(move |(_, member)| member.uuid == own).map(|(rank, _)| rank)
    }

    /// Why there can be no more calls, if so.
    pub(super) fn check(&self) -> Result<(), Error> {
        if !self.broken.load(Acquire) {
            return Ok(());
        }
        let why = self.session()?.broken.clone().unwrap_or_else(|| "an earlier launch failed".into());
        Err(Error::Broken { why })
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
        let offer = mine.and_then(|slices| Ok((self.export(&slices)?, slices)));
        // Who cannot go on takes part all the same, or the others would wait for it.
        let (message, files) = match &offer {
            Ok(((pieces, files), _)) => (Offer::Memories(pieces.clone()), files.as_slice()),
            Err(error) => (Offer::Failed(error.to_string()), &[][..]),
        };
        let bytes = encode(&(message, beside.to_vec()))?;
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let sent = self.session()?.exchange(text, &bytes, &files);
        let (_, own) = offer.inspect_err(|error| self.give_up(error))?;
        let received = || -> Result<_, Error> {
            let (mut memories, mut others) = (Vec::new(), Vec::new());
            for (peer, sent) in (0_u32..).zip(sent?) {
                if peer == self.rank {
                    memories.push(own.iter().map(|slice| Memory::Here(slice.address)).collect());
                    others.push(beside.to_vec());
                    continue;
                }
                let (offer, beside): (Offer, Vec<u8>) = decode(peer, sent.bytes)?;
                let pieces = match offer {
                    Offer::Memories(pieces) => pieces,
                    Offer::Failed(why) => return Err(Error::Lost { peer, why }),
                };
                let mut files = sent.files.into_iter();
                let import = |piece| self.import(peer, piece, &mut files);
                memories.push(pieces.into_iter().map(import).collect::<Result<_, _>>()?);
                others.push(beside);
            }
            Ok(Traded { memories, others })
        };
        let received = received();
        // Nobody gives memory back before the others have mapped it.
        let mapped = match &received {
            Ok(_) => Offer::Memories(Vec::new()),
            Err(error) => Offer::Failed(error.to_string()),
        };
        let ended = self.session()?.exchange(&format!("end of {text}"), &encode(&mapped)?, &[]);
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
    fn export(&self, slices: &[DeviceSlice]) -> Result<(Vec<Piece>, Vec<OwnedFd>), Error> {
        let own = self.members[self.rank as usize].process;
        let all_here = self.members.iter().all(|member| member.process == own);
        let (mut pieces, mut files) = (Vec::with_capacity(slices.len()), Vec::new());
        for &DeviceSlice { address, bytes } in slices {
            let mut piece = Piece { address, bytes, ipc: Vec::new() };
            if !all_here {
                match self.device.driver().export(address)? {
                    Export::Ipc(handle) => piece.ipc = handle.to_vec(),
                    Export::File(file) => files.push(file),
                }
            }
            pieces.push(piece);
        }
        Ok((pieces, files))
    }

    fn import(&self, peer: u32, piece: Piece, files: &mut impl Iterator<Item = OwnedFd>) -> Result<Memory, Error> {
        let [own, other] = [self.rank, peer].map(|rank| &self.members[rank as usize]);
        if other.process == own.process {
            return Ok(Memory::Here(piece.address));
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
            Ok(((registration, new), mine)) => (encode(&registration)?, Ok(new), mine),
            Err(error) => (Vec::new(), Err(error), Vec::new()),
        };
        let Traded { memories, others } = self.trade("registration of buffers", new, &registration)?;
        let (mut all, mut kept) = (Vec::with_capacity(others.len()), Vec::new());
        for ((peer, memories), bytes) in (0_u32..).zip(memories).zip(others) {
            if peer == self.rank {
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
        let gone: Vec<u64> = known.mine.iter().filter(|&(&id, &base)| !is_there(id, base)).map(|(&id, _)| id).collect();
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
                return Err(Error::DeviceCopy { expected: found.bytes - at, found: slice.bytes });
            }
            if known.mine.insert(found.id, found.base).is_none() {
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
