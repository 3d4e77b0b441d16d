//! Programs that must compile, as users write them.

mod channels;
mod collective;
mod collectives;
mod dividing;
mod ranks;
