// The ids of all matching records, a thousand at a time in ascending order, so that changes of the first ones do not
// move the others.

import { get } from '../../api/request.ts'
import type { Page } from '../../api/shapes.ts'
import { SIZE } from './batch.ts'

export async function* allMatching(path: string, parameters: string, isStopped: () => boolean) {
  for (let last = 0; !isStopped(); ) {
    const query = new URLSearchParams(parameters)
    query.delete('offset')
    query.set('limit', `${SIZE}`)
    query.set('ordering', 'id')
    query.set('fields', 'id')
    query.append('id__gt', `${last}`)
    const { results, next } = await get<Page>(`${path}?${query}`)
    const ids = results.map(({ id }) => Number(id))
    if (ids.length === 0) return
    yield ids
    if (!next) return
    last = ids.at(-1) ?? last
  }
}
