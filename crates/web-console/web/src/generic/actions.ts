// Actions of permissions, with the actions that each requires.

import type { Field } from '../api/shapes.ts'

/** Resource and action, as in `requires` of another resource: `object_records.view`. */
export type Granted = { [resource: string]: string[] }

const requires = (fields: Field[], resource: string, action: string): [string, string][] => {
  const value = fields.find(({ alias }) => alias === resource)?.values?.find((one) => one.value === action)
  return (value?.requires ?? []).map((name) => {
    const [other, its] = name.split('.')
    return its === undefined ? [resource, name] : [other ?? resource, its]
  })
}

const has = (granted: Granted, resource: string, action: string) => granted[resource]?.includes(action) === true

/** Grants an action with the actions that it requires. */
export function grant(fields: Field[], granted: Granted, resource: string, action: string): Granted {
  if (has(granted, resource, action)) return granted
  const next = { ...granted, [resource]: [...(granted[resource] ?? []), action] }
  return requires(fields, resource, action).reduce((sum, [other, its]) => grant(fields, sum, other, its), next)
}

/**
 * True if an action requires another one, directly or through others. Actions may require each other, so each is
 * visited once.
 */
function needs(fields: Field[], from: [string, string], to: [string, string], visited = new Set<string>()): boolean {
  return requires(fields, ...from).some((next) => {
    if (next.join('.') === to.join('.')) return true
    if (visited.has(next.join('.'))) return false
    visited.add(next.join('.'))
    return needs(fields, next, to, visited)
  })
}

/** The other granted actions that require this one, directly or through another. */
export function dependents(fields: Field[], granted: Granted, resource: string, action: string): [string, string][] {
  return Object.entries(granted)
    .flatMap(([other, actions]) => actions.map((its): [string, string] => [other, its]))
    .filter(([other, its]) => other !== resource || its !== action)
    .filter((pair) => needs(fields, pair, [resource, action]))
}

/** Removes an action with the actions that require it. */
export function revoke(fields: Field[], granted: Granted, resource: string, action: string): Granted {
  const removed: [string, string][] = [[resource, action], ...dependents(fields, granted, resource, action)]
  return Object.fromEntries(
    Object.entries(granted).map(([name, actions]) => [
      name,
      actions.filter((its) => removed.every(([other, one]) => other !== name || one !== its)),
    ]),
  )
}
