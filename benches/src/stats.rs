//! Medians, percentiles and ratios. No means: one disturbed run must not move a figure.

/// The middle value; of an even count, the mean of the two in the middle. Zero of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// The smallest and the largest value.
pub(crate) fn range(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    match (sorted.first(), sorted.last()) {
        (Some(low), Some(high)) => (*low, *high),
        _ => (0.0, 0.0),
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value below which `share` (0 to 1) of the samples lie, by nearest rank.
pub(crate) fn percentile(samples: &mut [u64], share: f64) -> u64 {
    if samples.is_empty() {
        return 0;
    }
    samples.sort_unstable();
    let rank = (share * samples.len() as f64).ceil() as usize;
    samples[rank.clamp(1, samples.len()) - 1]
}

/// A ratio of two medians, with the range of the ratios of the single runs.
#[derive(Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) of_medians: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// `above` over `below`; runs are paired by their place, since they were neighbours in time.
pub(crate) fn ratio(above: &[f64], below: &[f64]) -> Option<Ratio> {
    let divisor = median(below);
    if above.is_empty() || divisor <= 0.0 {
        return None;
    }
    let single: Vec<f64> =
        above.iter().zip(below).filter(|(_, below)| **below > 0.0).map(|(above, below)| above / below).collect();
    let (low, high) = range(&single);
    Some(Ratio { of_medians: median(above) / divisor, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut samples: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(percentile(&mut samples, 0.5), 50);
        assert_eq!(percentile(&mut samples, 0.99), 99);
        assert_eq!(percentile(&mut samples, 1.0), 100);
        assert_eq!(percentile(&mut [7], 0.5), 7);
        assert_eq!(percentile(&mut [], 0.5), 0);
    }

    #[test]
    fn a_ratio_pairs_neighbouring_runs() {
        let Some(ratio) = ratio(&[2.0, 4.0, 6.0], &[1.0, 4.0, 2.0]) else {
            panic!("a ratio");
        };
        assert_eq!(ratio.of_medians, 2.0);
        assert_eq!((ratio.low, ratio.high), (1.0, 3.0));
        assert!(super::ratio(&[1.0], &[0.0]).is_none());
        assert!(super::ratio(&[], &[1.0]).is_none());
    }
}
