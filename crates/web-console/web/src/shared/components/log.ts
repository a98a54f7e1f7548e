// What the administration log tells of what no list has: it forgets nothing.

import type { Fields, Instance, Json } from '../../api/shapes.ts'

export interface Known {
  id: number
  address: string
  /** The component that uses it. */
  component: { id: number; name: string } | undefined
}

/** Components, and what the log says of repositories, newest first: those that were made and not deleted. */
export function known(components: Instance[], made: Instance[], deleted: Instance[]): Known[] {
  const found = new Map<number, Known>()
  for (const { id, name, repository, repository_url } of components) {
    if (typeof repository !== 'number') continue
    found.set(repository, {
      id: repository,
      address: `${repository_url}`,
      component: { id: Number(id), name: `${name}` },
    })
  }
  const gone = new Set(deleted.map(({ object_id }) => object_id))
  for (const { object_id: id, object_name } of made) {
    if (typeof id === 'number' && !gone.has(id) && !found.has(id))
      found.set(id, { id, address: `${object_name}`, component: undefined })
  }
  return [...found.values()].toSorted((a, b) => b.id - a.id)
}

export const names = (list: Json | undefined, component: number) => Array.isArray(list) && list.includes(component)

/** No list of UI configurations exists, and none is ever deleted: the log knows their names and what they named last. */
export function interfaceWith(component: number, newestFirst: Instance[]): string[] {
  const last = new Map<string, Json>()
  for (const { object_name, changes } of newestFirst) {
    const change = ((changes ?? {}) as Fields).custom_components
    if (Array.isArray(change) && !last.has(`${object_name}`)) last.set(`${object_name}`, change[1] ?? null)
  }
  return [...last].filter(([, now]) => names(now, component)).map(([name]) => name)
}
