//! Evidence of runs about the rate at which half of all runs meet the bound.
//!
//! A search stops when its runs agree, and tries several rates until some do: a test that is made
//! once is wrong more often than its level. So evidence is a bet against the claim that at most
//! half of such runs agree: a bettor who bets on every run from the previous ones multiplies the
//! stake by 32 in at most one of 32 searches, whenever the search ends, and however the rates are
//! chosen (J. Ville, Étude critique de la notion de collectif, 1939).

/// Stake that decides: the claim is wrong, or the stake was won by chance in one of this many
/// searches.
pub(super) const ENOUGH: f64 = 32.0;

/// Returns the e-value, the stake that 1 has become after `agreed` of `of` runs agreed. Half of it
/// is on all of them, the other half is spread evenly over all shares of agreement from one half to
/// one.
pub(super) fn stake(agreed: u32, of: u32) -> f64 {
    const POINTS: u32 = 64;
    let all = if agreed == of { 2.0_f64.powi(of as i32) } else { 0.0 };
    let (won, lost) = (agreed as i32, (of - agreed) as i32);
    let at = |point: u32| {
        let share = 0.5 + 0.5 * (f64::from(point) + 0.5) / f64::from(POINTS);
        (2.0 * share).powi(won) * (2.0 * (1.0 - share)).powi(lost)
    };
    let spread = (0..POINTS).map(at).sum::<f64>() / f64::from(POINTS);
    f64::midpoint(all, spread)
}

/// Returns the furthest rate that runs decide. `rates` are those from the safe end on, each with
/// the number of runs that agreed and their total. Runs at a rate count for every rate before it as
/// well; a rate is decided only with all before it, so that no choice among them is left.
pub(super) fn decided(rates: &[(u32, u32, u32)]) -> Option<u32> {
    // Stakes won at one rate are put on the runs of the next.
    let won = |rates: &[(u32, u32, u32)]| -> f64 {
        rates.iter().map(|(_, agreed, of)| stake(*agreed, *of)).product()
    };
    let beyond = |from: usize| won(&rates[from..]);
    let decided = (0..rates.len()).take_while(|from| beyond(*from) >= ENOUGH);
    decided.last().map(|from| rates[from].0)
}

#[cfg(test)]
mod test {
    use block::Rng;

    use super::*;

    #[test]
    fn six_of_one_mind_decide_and_mixed_ones_take_more() {
        assert!(stake(5, 5) < ENOUGH && stake(6, 6) >= ENOUGH);
        assert!(stake(11, 12) < ENOUGH && stake(13, 14) >= ENOUGH);
        assert!(stake(10, 20) < 1.0);
        assert_eq!(decided(&[]), None);
        assert_eq!(decided(&[(40, 6, 6), (60, 3, 6)]), None);
        assert_eq!(decided(&[(40, 8, 8), (60, 3, 6)]), Some(40));
        assert_eq!(decided(&[(20, 9, 9), (40, 6, 6)]), Some(40));
        assert_eq!(decided(&[(20, 6, 6), (40, 1, 1)]), Some(20));
    }

    #[test]
    fn whoever_may_stop_at_any_time_is_wrong_as_seldom_as_is_said() {
        const GAMES: u32 = 4000;
        let mut rng = Rng::new(3, 0);
        let mut wins = |_: &u32| {
            let (mut agreed, mut of) = (0, 0);
            // The worst case of the claim: exactly half agree.
            while of < 60 && stake(agreed, of) < ENOUGH {
                agreed += u32::from(rng.uniform() < 0.5);
                of += 1;
            }
            stake(agreed, of) >= ENOUGH
        };
        let share = (0..GAMES).filter(&mut wins).count() as f64 / f64::from(GAMES);
        println!("{share}");
        assert!(share <= 1.0 / ENOUGH && share > 0.005, "{share}");
    }
}
