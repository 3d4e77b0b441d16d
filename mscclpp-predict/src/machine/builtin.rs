//! The built-in machine descriptions.

/// Names and texts, in alphabetical order.
pub(super) const ALL: &[(&str, &str)] = &[
    ("16x8xa100", include_str!("../../machines/16x8xa100.toml")),
    ("16x8xb200", include_str!("../../machines/16x8xb200.toml")),
    ("16x8xh100", include_str!("../../machines/16x8xh100.toml")),
    ("16x8xh200", include_str!("../../machines/16x8xh200.toml")),
    ("2x1xh200-1nic", include_str!("../../machines/2x1xh200-1nic.toml")),
    ("2x8xa100", include_str!("../../machines/2x8xa100.toml")),
    ("2x8xb200", include_str!("../../machines/2x8xb200.toml")),
    ("2x8xh100", include_str!("../../machines/2x8xh100.toml")),
    ("2x8xh100-1nic", include_str!("../../machines/2x8xh100-1nic.toml")),
    ("2x8xh200", include_str!("../../machines/2x8xh200.toml")),
    ("4x8xa100", include_str!("../../machines/4x8xa100.toml")),
    ("4x8xb200", include_str!("../../machines/4x8xb200.toml")),
    ("4x8xh100", include_str!("../../machines/4x8xh100.toml")),
    ("4x8xh200", include_str!("../../machines/4x8xh200.toml")),
    ("4xa100", include_str!("../../machines/4xa100.toml")),
    ("4xgb200", include_str!("../../machines/4xgb200.toml")),
    ("4xgb300", include_str!("../../machines/4xgb300.toml")),
    ("4xl40s", include_str!("../../machines/4xl40s.toml")),
    ("4xrtx4090-pcie", include_str!("../../machines/4xrtx4090-pcie.toml")),
    ("4xv100-pcie", include_str!("../../machines/4xv100-pcie.toml")),
    ("8x8xa100", include_str!("../../machines/8x8xa100.toml")),
    ("8x8xb200", include_str!("../../machines/8x8xb200.toml")),
    ("8x8xh100", include_str!("../../machines/8x8xh100.toml")),
    ("8x8xh200", include_str!("../../machines/8x8xh200.toml")),
    ("8xa100", include_str!("../../machines/8xa100.toml")),
    ("8xa800-pcie-4+4", include_str!("../../machines/8xa800-pcie-4+4.toml")),
    ("8xb200", include_str!("../../machines/8xb200.toml")),
    ("8xb300", include_str!("../../machines/8xb300.toml")),
    ("8xgb200", include_str!("../../machines/8xgb200.toml")),
    ("8xh100", include_str!("../../machines/8xh100.toml")),
    ("8xh200", include_str!("../../machines/8xh200.toml")),
    ("cpu-2core", include_str!("../../machines/cpu-2core.toml")),
    ("h200-virtual", include_str!("../../machines/h200-virtual.toml")),
    ("nvl72", include_str!("../../machines/nvl72.toml")),
    ("nvl72-gb300", include_str!("../../machines/nvl72-gb300.toml")),
];

pub(super) fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
