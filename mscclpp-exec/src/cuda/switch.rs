//! Switch channels of a plan: which operations have multicast addresses, and where these are.

use mscclpp_core::types::{BufferKind, ReduceOp};

use super::executor::Inner;
use super::multicast::{self, MulticastObject, MulticastUnavailable, Request};
use super::tables::switch_opcode;
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_base::interpret::program::{Instr, Operand, ResolvedPlan, Space};
use mscclpp_base::numeric::{AccumType, SwitchResult, switch_result};
use mscclpp_cuda::abi;
use mscclpp_cuda::slice::DeviceSlice;

/// How the members of a switch channel reach one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPath {
    /// Member ranks.
    pub members: Vec<u32>,
    /// The buffer that the channel is over.
    pub buffer: BufferKind,
    /// `Ok` if stores go to all members at once, by multicast addresses, and so do loads for which the switch's result
    /// is bitwise equal or that [`Options::in_switch_floats`](super::Options::in_switch_floats) allows.
    /// Otherwise the reason why the members' memories are read and written one by one.
    pub path: Result<(), MulticastUnavailable>,
}

/// Groups of ranks that switch channels are over.
pub(super) struct Groups {
    groups: Vec<Group>,
    /// By operation: 1 + the group of its sources and of its destinations, or 0.
    of: Vec<[u32; 2]>,
}

struct Group {
    /// Members in the order in which operations name them.
    members: Vec<u32>,
    /// Which spaces are accessed through the group.
    spaces: [bool; 4],
    /// Why there can be no multicast object.
    rejected: Option<MulticastUnavailable>,
}

/// A group's memory of one space.
#[derive(Clone)]
pub(super) struct MulticastBuffer {
    group: usize,
    pub(super) members: Vec<u32>,
    pub(super) space: Space,
    rejected: Option<MulticastUnavailable>,
}

impl Groups {
    pub(super) fn new(program: &ResolvedPlan, world: &Inner) -> Self {
        Self::with(program, &world.device_of, |members| rejection(world, members).err())
    }

    /// Creates the groups of a plan whose ranks are on these devices. `rejection`: why ranks can have no multicast object.
    pub(super) fn with(
        program: &ResolvedPlan,
        device_of: &[u32],
        rejection: impl Fn(&[u32]) -> Option<MulticastUnavailable>,
    ) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut number = |operands: &[Operand], is_switch: bool| -> u32 {
            let Some(members) = members(operands).filter(|_| is_switch) else { return 0 };
            let at = groups.iter().position(|group| group.members == members).unwrap_or_else(|| {
                let rejected = rejection(&members);
                groups.push(Group { members, spaces: [false; 4], rejected });
                groups.len() - 1
            });
            groups[at].spaces[operands[0].space as usize % 4] = true;
            at as u32 + 1
        };
        let of_instr = |instr: &Instr| {
            let [loads, stores] = [instr.kind.srcs(), instr.kind.dsts()].map(|side| side.switch.1 > 0);
            [number(program.srcs(instr), loads), number(program.dsts(instr), stores)]
        };
        let of = program.instrs.iter().map(of_instr).collect();
        let mut all = Self { groups, of };
        // A launch has a limited number of groups of each device.
        for &device in device_of {
            for group in all.on(device_of, device).skip(abi::MAX_GROUPS as usize).collect::<Vec<_>>() {
                all.groups[group].rejected = Some(MulticastUnavailable::TooMany { most: abi::MAX_GROUPS as usize });
            }
        }
        all
    }

    /// Returns the numbers of the groups with a member on a device that may have multicast objects.
    fn on(&self, device_of: &[u32], device: u32) -> impl Iterator<Item = usize> {
        let is_there = move |group: &Group| group.members.iter().any(|&rank| device_of[rank as usize] == device);
        let open = self.groups.iter().enumerate().filter(|(_, group)| group.rejected.is_none());
        open.filter(move |(_, group)| is_there(group)).map(|(number, _)| number)
    }

    /// Stores in a device's operations the groups that they refer to.
    pub(super) fn mark(&self, world: &Inner, device: u32, instrs: &mut [abi::Instr]) {
        let own: Vec<usize> = self.on(&world.device_of, device).collect();
        let local = |group: u32| -> u16 {
            let at = (group as usize).checked_sub(1).and_then(|group| own.iter().position(|&other| other == group));
            at.map_or(0, |at| at as u16 + 1)
        };
        for (instr, &[src, dst]) in instrs.iter_mut().zip(&self.of) {
            (instr.src_group, instr.dst_group) = (local(src), local(dst));
            if instr.src_group != 0 || instr.dst_group != 0 {
                instr.opcode = switch_opcode(instr.opcode);
            }
        }
    }

    /// Returns, by operation, whether to look up multicast addresses. `combines`: whether the switch can perform the
    /// reduction.
    pub(super) fn useful(&self, combines: bool) -> Vec<bool> {
        let open = |group: u32| {
            let group = (group as usize).checked_sub(1).map(|group| &self.groups[group]);
            group.is_some_and(|group| group.rejected.is_none())
        };
        self.of.iter().map(|&[src, dst]| combines && open(src) || open(dst)).collect()
    }

    /// Returns the buffers of these spaces.
    pub(super) fn windows(&self, spaces: [Space; 2]) -> Vec<MulticastBuffer> {
        let of = |(group, of): (usize, &Group)| {
            let used = spaces.into_iter().filter(|&space| of.spaces[space as usize]);
            let (members, rejected) = (of.members.clone(), of.rejected.clone());
            used.map(|space| MulticastBuffer { group, members: members.clone(), space, rejected: rejected.clone() })
                .collect::<Vec<_>>()
        };
        self.groups.iter().enumerate().flat_map(of).collect()
    }

    /// Returns a device's distances from the memories of two spaces to their multicast addresses.
    fn distances(&self, world: &Inner, device: u32, of: &[(usize, Space, u64)]) -> abi::Distances {
        let mut distances = abi::Distances::default();
        for (group, at) in self.on(&world.device_of, device).zip(0..abi::MAX_GROUPS as usize) {
            for &(_, space, distance) in of.iter().filter(|(number, ..)| *number == group) {
                distances[2 * at + abi::Space::from(space).0 as usize % 2] = distance;
            }
        }
        distances
    }
}

impl MulticastBuffer {
    /// Returns whether a multicast object is possible.
    pub(super) fn is_possible(&self) -> bool {
        self.rejected.is_none()
    }

    /// Records a reason why there can be no object.
    pub(super) fn reject(&mut self, why: MulticastUnavailable) {
        self.rejected.get_or_insert(why);
    }
}

/// Returns the ranks of operands that are one chunk of each of several ranks.
fn members(operands: &[Operand]) -> Option<Vec<u32>> {
    let first = operands.first()?;
    let alike = |other: &Operand| (other.index, other.size, other.space) == (first.index, first.size, first.space);
    let members: Vec<u32> = operands.iter().map(|operand| operand.rank).collect();
    let mut sorted = members.clone();
    sorted.sort_unstable();
    sorted.dedup();
    (members.len() > 1 && sorted.len() == members.len() && operands.iter().all(alike)).then_some(members)
}

/// Returns why these ranks can have no multicast object, whatever the memory.
fn rejection(world: &Inner, members: &[u32]) -> Result<(), MulticastUnavailable> {
    if !world.options.multicast {
        return Err(MulticastUnavailable::Off);
    }
    for (number, &rank) in members.iter().enumerate() {
        let (device, multicast) = match (&world.group, world.device(rank)) {
            (Some(group), _) => group.multicast(rank),
            (None, Some(device)) => (device.label(), device.is_nvls_supported()),
            (None, None) => (String::new(), false),
        };
        if !multicast {
            return Err(MulticastUnavailable::NoHardware { rank, device });
        }
        let same = |&&other: &&u32| match &world.group {
            Some(group) => group.on_one_device(other, rank),
            None => world.device_of[other as usize] == world.device_of[rank as usize],
        };
        if let Some(&other) = members[..number].iter().find(same) {
            return Err(MulticastUnavailable::OneDevice { ranks: [other, rank] });
        }
    }
    Ok(())
}

/// Multicast objects of some buffers.
#[derive(Default)]
pub(super) struct Multicasts {
    /// By device of this process.
    pub(super) distances: Vec<abi::Distances>,
    pub(super) switches: Vec<SwitchPath>,
    _objects: Vec<MulticastObject>,
}

impl Multicasts {
    /// Creates the objects of the buffers that may have one. It is a call of all ranks. `bytes`: size of a buffer;
    /// `slice`: a rank's part of it, at its address in this process.
    ///
    /// # Errors
    /// Those of a call of all ranks.
    pub(super) fn new(
        world: &Inner,
        groups: &Groups,
        text: &str,
        windows: &[MulticastBuffer],
        slice: impl Fn(&MulticastBuffer, u32) -> DeviceSlice,
    ) -> Result<Self, Error> {
        let open: Vec<&MulticastBuffer> = windows.iter().filter(|window| window.is_possible()).collect();
        let request = |window: &&MulticastBuffer| {
            let here = window.members.iter().filter(|&&rank| world.device(rank).is_some());
            Request {
                members: window.members.clone(),
                bytes: slice(window, window.members[0]).bytes,
                own: here.map(|&rank| (rank, slice(window, rank))).collect(),
            }
        };
        let made = multicast::make(world, text, &open.iter().map(request).collect::<Vec<_>>())?;
        let (mut objects, mut distances, mut switches) = (Vec::new(), Vec::new(), Vec::new());
        let mut made = made.into_iter();
        for window in windows {
            let path = match &window.rejected {
                Some(why) => Err(why.clone()),
                None => made.next().unwrap_or(Ok(None)).map(|object| {
                    let Some(object) = object else { return };
                    let first = slice(window, window.members[0]).address;
                    distances.push((window.group, window.space, object.distance(first)));
                    objects.push(object);
                }),
            };
            let buffer = match window.space {
                Space::Input | Space::OwnInput => BufferKind::Input,
                Space::Output | Space::OwnOutput => BufferKind::Output,
                Space::Scratch | Space::Packets => BufferKind::Scratch,
            };
            if let Err(why) = &path {
                log::info!(
                    "switch channel over the {buffer} of ranks {:?} does not use multicast: {why}",
                    window.members
                );
            }
            switches.push(SwitchPath { members: window.members.clone(), buffer, path });
        }
        let distances = world.numbers.iter().map(|&device| groups.distances(world, device, &distances)).collect();
        Ok(Self { distances, switches, _objects: objects })
    }
}

/// Returns whether a switch performs a reduction, as in `kernels/switch.h`. `floats`: whether its results for floats are accepted.
pub(super) fn combines(dtype: DataType, accumulate: AccumType, op: ReduceOp, floats: bool) -> bool {
    let is_wide_enough = accumulate != AccumType::F64 || dtype == DataType::F64;
    match switch_result(dtype, op) {
        Some(SwitchResult::Exact) => true,
        Some(SwitchResult::Unspecified) => floats && (is_wide_enough || matches!(op, ReduceOp::Min | ReduceOp::Max)),
        None => false,
    }
}
