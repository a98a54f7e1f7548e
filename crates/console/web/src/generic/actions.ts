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

/** The actions that are held and require this one, directly or by another. */
export function dependents(fields: Field[], held: Held, resource: string, action: string): [string, string][] {
  const needs = (other: string, its: string): boolean =>
    requires(fields, other, its).some(
      ([one, name]) =>
        (one === resource && name === action) || (one !== other || name !== its ? needs(one, name) : false),
    )
  return Object.entries(held).flatMap(([other, actions]) =>
    actions.filter((its) => needs(other, its)).map((its): [string, string] => [other, its]),
  )
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
