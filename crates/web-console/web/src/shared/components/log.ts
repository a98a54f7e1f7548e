// Objects that no list has, from the administration log, which contains all of them.

import type { Fields, Instance, Json } from '../../api/shapes.ts'

export interface Known {
  id: number
  address: string
  /** The component that uses it. */
  component: { id: number; name: string } | undefined
}

/** The repositories in the log, newest first: created and not deleted. Components add theirs. */
export function repositoriesIn(components: Instance[], created: Instance[], deleted: Instance[]): Known[] {
  const byId = new Map<number, Known>()
  for (const { id, name, repository, repository_url } of components) {
    if (typeof repository !== 'number') continue
    byId.set(repository, {
      id: repository,
      address: `${repository_url}`,
      component: { id: Number(id), name: `${name}` },
    })
  }
  const gone = new Set(deleted.map(({ object_id }) => object_id))
  for (const { object_id: id, object_name } of created) {
    if (typeof id === 'number' && !gone.has(id) && !byId.has(id))
      byId.set(id, { id, address: `${object_name}`, component: undefined })
  }
  return [...byId.values()].toSorted((a, b) => b.id - a.id)
}

export const names = (list: Json | undefined, component: number) => Array.isArray(list) && list.includes(component)

/** UI configurations have no list and are never deleted: the log contains their names and their last contents. */
export function interfaceWith(component: number, newestFirst: Instance[]): string[] {
  const last = new Map<string, Json>()
  for (const { object_name, changes } of newestFirst) {
    const change = ((changes ?? {}) as Fields).custom_components
    if (Array.isArray(change) && !last.has(`${object_name}`)) last.set(`${object_name}`, change[1] ?? null)
  }
  return [...last].filter(([, now]) => names(now, component)).map(([name]) => name)
}
