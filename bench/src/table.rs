//! The table of the measurements: medians over the rounds, and the median of the ratios within each round.

use crate::failure::Failure;
use std::path::Path;

struct Cell {
    round: String,
    database: String,
    server: String,
    operation: String,
    /// Requests per second, p50, p99, wrong answers, microseconds of processor time, peak memory.
    figures: Vec<f64>,
}

/// Prints the table of a file with a line for each cell.
pub fn print(file: &Path) -> Result<(), Failure> {
    let mut cells = Vec::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let parts: Vec<&str> = line.split(',').collect();
        let [round, database, server, operation, figures @ ..] = parts.as_slice() else { continue };
        let figures = figures.iter().map(|figure| figure.parse()).collect::<Result<_, _>>()?;
        let [round, database, server, operation] = [round, database, server, operation].map(|text| (*text).to_owned());
        cells.push(Cell { round, database, server, operation, figures });
    }
    println!(
        "| database | operation | server | requests/s | p50 ms | p99 ms | of the floor | CPU µs/request | of the floor's | wrong | peak MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut seen = Vec::new();
    for cell in &cells {
        let key = (&cell.database, &cell.operation, &cell.server);
        if !seen.contains(&key) {
            seen.push(key);
        }
    }
    let order = |list: &[&str], name: &str| list.iter().position(|known| *known == name);
    seen.sort_by_key(|(database, operation, server)| {
        let operation = order(&["list", "search", "get", "patch", "create", "login"], operation);
        (order(&["sqlite", "postgres"], database), operation, order(&["floor", "chancery"], server))
    });
    for (database, operation, server) in seen {
        let of = |server: &str| -> Vec<&Cell> {
            cells
                .iter()
                .filter(|cell| &cell.database == database && &cell.operation == operation && cell.server == server)
                .collect()
        };
        let (own, floor) = (of(server), of("floor"));
        let figure = |at: usize| median(own.iter().map(|cell| cell.figures[at]).collect());
        let ratio = |at: usize| {
            let pairs = own.iter().filter_map(|cell| {
                let beside = floor.iter().find(|other| other.round == cell.round)?;
                Some(cell.figures[at] / beside.figures[at])
            });
            median(pairs.collect())
        };
        let (speed, cost) = match server == "floor" || floor.is_empty() {
            true => (String::new(), String::new()),
            false => (format!("{:.0} %", ratio(0) * 100.0), format!("{:.2} ×", ratio(4))),
        };
        let wrong: f64 = own.iter().map(|cell| cell.figures[3]).sum();
        println!(
            "| {database} | {operation} | {server} | {:.0} | {:.2} | {:.2} | {speed} | {:.0} | {cost} | {wrong:.0} | {:.0} |",
            figure(0),
            figure(1),
            figure(2),
            figure(4),
            figure(5)
        );
    }
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => 0.0,
        length if length % 2 == 1 => figures[middle],
        _ => f64::midpoint(figures[middle - 1], figures[middle]),
    }
}
