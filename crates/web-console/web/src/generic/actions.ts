// Actions of permissions, and what each brings along.

import type { Field } from '../api/shapes.ts'

/** Resource and action, as `requires` names those of other resources: `object_records.view`. */
export type Held = { [resource: string]: string[] }

const requires = (fields: Field[], resource: string, action: string): [string, string][] => {
  const value = fields.find(({ alias }) => alias === resource)?.values?.find((one) => one.value === action)
  return (value?.requires ?? []).map((name) => {
    const [other, its] = name.split('.')
    return its === undefined ? [resource, name] : [other ?? resource, its]
  })
}

const has = (held: Held, resource: string, action: string) => held[resource]?.includes(action) === true

/** With an action come those that it requires. */
export function give(fields: Field[], held: Held, resource: string, action: string): Held {
  if (has(held, resource, action)) return held
  const given = { ...held, [resource]: [...(held[resource] ?? []), action] }
  return requires(fields, resource, action).reduce((sum, [other, its]) => give(fields, sum, other, its), given)
}

/** Whether an action requires another one, directly or by others. Actions may require each other: each is visited once. */
function needs(fields: Field[], from: [string, string], to: [string, string], visited = new Set<string>()): boolean {
  return requires(fields, ...from).some((next) => {
    if (next.join('.') === to.join('.')) return true
    if (visited.has(next.join('.'))) return false
    visited.add(next.join('.'))
    return needs(fields, next, to, visited)
  })
}

/** The other actions that are held and require this one, directly or by another. */
export function dependents(fields: Field[], held: Held, resource: string, action: string): [string, string][] {
  return Object.entries(held)
    .flatMap(([other, actions]) => actions.map((its): [string, string] => [other, its]))
    .filter(([other, its]) => other !== resource || its !== action)
    .filter((pair) => needs(fields, pair, [resource, action]))
}

/** Without an action go those that require it. */
export function take(fields: Field[], held: Held, resource: string, action: string): Held {
  const gone: [string, string][] = [[resource, action], ...dependents(fields, held, resource, action)]
  return Object.fromEntries(
    Object.entries(held).map(([name, actions]) => [
      name,
      actions.filter((its) => gone.every(([other, one]) => other !== name || one !== its)),
    ]),
  )
}
