// Which right a refused request was missing, as far as its method and address tell.

import type { Asked } from '../api/refusal.ts'
import type { Permissions } from '../api/shapes.ts'

export interface Right {
  resource: string
  action: string
  /** Who gives it: a role, or those who own the class of the records. */
  by: 'role' | 'class'
}

const ACTIONS: { [method: string]: string } = { PATCH: 'edit', PUT: 'edit', DELETE: 'delete' }

/** Undefined where the address does not tell, or the right is there and something else was missing. */
export function missingRight(asked: Asked | undefined, held: Permissions): Right | undefined {
  const [path = ''] = asked?.path.split('?') ?? []
  const parts = path
    .replace(/^\/api\//, '/')
    .split('/')
    .filter(Boolean)
  const ofRecords = parts.indexOf('object-records')
  const [name = '', key, further] = ofRecords < 0 ? parts : parts.slice(ofRecords)
  if (!asked || further !== undefined) return undefined
  const resource = name.replaceAll('-', '_')
  const action =
    ACTIONS[asked.method] ??
    (asked.method === 'POST' ? (key === undefined ? 'create' : undefined) : key === undefined ? 'list' : 'view')
  if (action === undefined) return undefined
  if (ofRecords >= 0) return { resource, action: action === 'list' ? 'view' : action, by: 'class' }
  const own = held[resource]
  return own && own[action] !== true ? { resource, action, by: 'role' } : undefined
}
