// The missing permission of a refused request, as far as its method and path reveal it.

import type { Asked } from '../api/refusal.ts'
import type { Permissions } from '../api/shapes.ts'

export interface Right {
  resource: string
  action: string
  /** The source of the permission: a role, or an owner of the class of the records. */
  by: 'role' | 'class'
}

const ACTIONS: { [method: string]: string } = { PATCH: 'edit', PUT: 'edit', DELETE: 'delete' }

/** Undefined if the path does not reveal it, or if the caller has this permission. */
export function missingRight(request: Asked | undefined, permissions: Permissions): Right | undefined {
  const [path = ''] = request?.path.split('?') ?? []
  const parts = path
    .replace(/^\/api\//, '/')
    .split('/')
    .filter(Boolean)
  const ofRecords = parts.indexOf('object-records')
  const [name = '', key, further] = ofRecords < 0 ? parts : parts.slice(ofRecords)
  if (!request || further !== undefined) return undefined
  const resource = name.replaceAll('-', '_')
  const action =
    ACTIONS[request.method] ??
    (request.method === 'POST' ? (key === undefined ? 'create' : undefined) : key === undefined ? 'list' : 'view')
  if (action === undefined) return undefined
  if (ofRecords >= 0) return { resource, action: action === 'list' ? 'view' : action, by: 'class' }
  const own = permissions[resource]
  return own && own[action] !== true ? { resource, action, by: 'role' } : undefined
}
