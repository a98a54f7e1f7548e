//! The table of routes, which maps a request's path to its routes.

use crate::caller::RouteAccess;
use crate::path::{PathKind, PathValue, placeholders};
use crate::route::Route;

/// All routes by path, in a radix tree.
pub struct Table {
    tree: matchit::Router<usize>,
    paths: Vec<(Vec<&'static Route>, Vec<PathKind>)>,
}

impl Table {
    /// Creates the table of all routes.
    ///
    /// # Panics
    /// If the paths of two routes conflict, at the start of the process.
    pub fn new(routes: Vec<Route>) -> Table {
        let mut table = Table { tree: matchit::Router::new(), paths: Vec::new() };
        for route in routes {
            let route: &'static Route = Box::leak(Box::new(route));
            let bare = route.path.trim_end_matches('/');
            let place = table
                .paths
                .iter()
                .position(|(path, _)| path.first().is_some_and(|first_route| first_route.path == route.path));
            match place {
                Some(n) => table.paths[n].0.push(route),
                None => {
                    // Both forms of every path are served (`docs/reference/conventions.md`).
                    let paths = [bare.to_owned(), format!("{bare}/")];
                    let takes_rest = bare.ends_with('}') && bare.contains("{*");
                    for path in paths.into_iter().take(if takes_rest { 1 } else { 2 }) {
                        if let Err(error) = table.tree.insert(path, table.paths.len()) {
                            panic!("route {}: {error}", route.path);
                        }
                    }
                    let kinds = placeholders(route.path).map(|(_, kind)| kind).collect();
                    table.paths.push((if route.status == 405 { Vec::new() } else { vec![route] }, kinds));
                }
            }
        }
        table
    }

    /// Returns every route, in the order of declaration.
    pub fn routes(&self) -> impl Iterator<Item = &'static Route> {
        self.paths.iter().flat_map(|(routes, _)| routes).copied()
    }

    /// Returns whether a path has a route only for this server's own pages ([`Route::from_own_pages_alone`]).
    pub fn is_for_own_pages(&self, path: &str) -> bool {
        self.tree
            .at(path)
            .is_ok_and(|path_match| self.paths[*path_match.value].0.iter().any(|route| route.is_for_own_pages))
    }

    /// Returns the routes of a path and its values; `None` if there are no routes, or a value is not of its kind.
    pub fn find(&self, path: &str) -> Option<MatchedRoutes<'_>> {
        let path_match = self.tree.at(path).ok()?;
        let (routes, kinds) = &self.paths[*path_match.value];
        let values = path_match.params.iter().map(|(_, value)| value);
        let path_values =
            values.zip(kinds).map(|(value, kind)| kind.read(value)).collect::<Option<Vec<PathValue>>>()?;
        Some(MatchedRoutes { routes, path_values })
    }
}

/// The table of the process, as a function, since it is created after the modules are registered.
pub struct RouteTable(pub fn() -> &'static Table);

impl RouteTable {
    /// Returns the table.
    pub fn table(&self) -> &'static Table {
        (self.0)()
    }
}

/// The routes that a path matches, with the values in the path.
pub struct MatchedRoutes<'a> {
    /// One route for each method; empty if every method is refused.
    pub routes: &'a [&'static Route],
    pub path_values: Vec<PathValue>,
}

impl MatchedRoutes<'_> {
    /// Returns whether the path belongs to the deployment: for operators, and served on any host.
    pub fn is_of_deployment(&self) -> bool {
        self.routes.iter().any(|route| route.access == RouteAccess::ApiKey)
    }

    /// Returns the build's domain in a path of the deployment; empty if there is none.
    pub fn domain(&self) -> &str {
        self.path_values.iter().find_map(PathValue::text).unwrap_or("")
    }
}

/// Returns the methods of a path, as the header `Allow` lists them.
pub fn allowed(routes: &[&'static Route]) -> String {
    let mut methods: Vec<&str> = routes.iter().map(|route| route.method.as_str()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.sort_unstable();
    methods.join(", ")
}
