// Actions of permissions, with the actions that each requires.

import type { Field } from '../api/shapes.ts'

/** Resource and action, as in `requires` of another resource: `object_records.view`. */
export type Held = { [resource: string]: string[] }

const requires = (fields: Field[], resource: string, action: string): [string, string][] => {
  const value = fields.find(({ alias }) => alias === resource)?.values?.find((one) => one.value === action)
  return (value?.requires ?? []).map((name) => {
    const [other, its] = name.split('.')
    return its === undefined ? [resource, name] : [other ?? resource, its]
  })
}

const has = (held: Held, resource: string, action: string) => held[resource]?.includes(action) === true

/** Grants an action with the actions that it requires. */
export function grant(fields: Field[], held: Held, resource: string, action: string): Held {
  if (has(held, resource, action)) return held
  const given = { ...held, [resource]: [...(held[resource] ?? []), action] }
  return requires(fields, resource, action).reduce((sum, [other, its]) => grant(fields, sum, other, its), given)
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
export function dependents(fields: Field[], held: Held, resource: string, action: string): [string, string][] {
  return Object.entries(held)
    .flatMap(([other, actions]) => actions.map((its): [string, string] => [other, its]))
    .filter(([other, its]) => other !== resource || its !== action)
    .filter((pair) => needs(fields, pair, [resource, action]))
}

/** Removes an action with the actions that require it. */
export function revoke(fields: Field[], held: Held, resource: string, action: string): Held {
  const gone: [string, string][] = [[resource, action], ...dependents(fields, held, resource, action)]
  return Object.fromEntries(
    Object.entries(held).map(([name, actions]) => [
      name,
      actions.filter((its) => gone.every(([other, one]) => other !== name || one !== its)),
    ]),
  )
}
