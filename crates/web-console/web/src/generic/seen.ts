// The state of an instance that a list showed. Lists have no entity tags; a write to another state is refused as the
// API would refuse it.

import { call, get, Refusal } from '../api/request.ts'
import type { Instance, Page } from '../api/shapes.ts'
import { isEqual } from './changes.ts'

const changed = () => new Refusal(412, {}, null, null)

/** True if two states have the same entity tag. Labels and permissions are not part of it. */
export function isSeen(shown: Instance, now: Instance): boolean {
  if (typeof shown.modified_at === 'string') return shown.modified_at === now.modified_at
  const { _meta: _a, ...before } = shown
  const { _meta: _b, ...after } = now
  return isEqual(before, after)
}

/** The entity tag of an object that a list showed. `is` says whether it is still the same. */
export async function tagOf(
  path: string,
  shown: Instance,
  is: (shown: Instance, now: Instance) => boolean = isSeen,
): Promise<string | null> {
  const { data, etag } = await call<Instance>('GET', path)
  if (!is(shown, data)) throw changed()
  return etag
}

/** For instances without a path of their own, and thus without an entity tag: the instance in its list now. */
export async function inList(list: string, id: unknown): Promise<Instance> {
  const { results } = await get<Page>(`${list}?limit=1000`)
  const item = results.find((one) => one.id === id)
  if (!item) throw new Refusal(404, {}, null, null)
  return item
}

/** Deletes such a one, unless it is another than the one that was shown. */
export async function removeSeen(list: string, shown: Instance): Promise<void> {
  if (!isSeen(shown, await inList(list, shown.id))) throw changed()
  await call('DELETE', `${list}${shown.id}/`)
}
