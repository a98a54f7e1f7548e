// What somebody saw of an instance in a list, which tells no entity tags: writing to another state of it is refused as by the API.

import { call, get, Refusal } from '../api/request.ts'
import type { Instance, Page } from '../api/shapes.ts'
import { same } from './changes.ts'

const changed = () => new Refusal(412, {}, null, null)

/** Whether two states are the same one, as far as the entity tag goes: labels and rights are not a part of it. */
export function isSeen(shown: Instance, now: Instance): boolean {
  if (typeof shown.modified_at === 'string') return shown.modified_at === now.modified_at
  const { _meta: _a, ...before } = shown
  const { _meta: _b, ...after } = now
  return same(before, after)
}

/** The entity tag of what a list showed. `is` tells whether it is that still. */
export async function tagOf(
  path: string,
  shown: Instance,
  is: (shown: Instance, now: Instance) => boolean = isSeen,
): Promise<string | null> {
  const { data, etag } = await call<Instance>('GET', path)
  if (!is(shown, data)) throw changed()
  return etag
}

/** For instances that have no address to be read at, and so no tag beforehand: one of a list as it is now. */
export async function inList(list: string, id: unknown): Promise<Instance> {
  const { results } = await get<Page>(`${list}?limit=1000`)
  const found = results.find((one) => one.id === id)
  if (!found) throw new Refusal(404, {}, null, null)
  return found
}

/** Deletes such a one, unless it is another than the one that was shown. */
export async function removeSeen(list: string, shown: Instance): Promise<void> {
  if (!isSeen(shown, await inList(list, shown.id))) throw changed()
  await call('DELETE', `${list}${shown.id}/`)
}
