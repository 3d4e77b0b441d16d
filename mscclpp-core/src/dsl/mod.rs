//! The authoring API.
