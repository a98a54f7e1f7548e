// The records that the user opened last, stored with the account: their addresses and labels.

import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { queries } from '../api/query.ts'
import { call, get } from '../api/request.ts'
import type { Json, Page } from '../api/shapes.ts'

export interface Opened {
  to: string
  label: string
}

const ALL = '/api/users/me/preferences/'
const KEY = 'console.recent'
const MOST = 10
/** A record that is left sooner does not count. */
const LOOK = 1000

const openedIn = (value: Json | undefined): Opened[] =>
  (Array.isArray(value) ? (value as unknown as Partial<Opened>[]) : []).flatMap((one) =>
    typeof one?.to === 'string' && one.to.startsWith('/records/') && typeof one.label === 'string'
      ? [{ to: one.to, label: one.label }]
      : [],
  )

const query = {
  queryKey: [ALL, KEY],
  queryFn: async () => openedIn((await get<Page>(`${ALL}?key=${KEY}`)).results[0]?.value),
  staleTime: 60_000,
}

export const useRecentRecords = (): Opened[] => useQuery(query).data ?? []

/** Notes that a record was opened. */
export function useOpened(to: string, label: string | undefined) {
  useEffect(() => {
    if (label === undefined) return
    const timer = setTimeout(async () => {
      const before = await queries.ensureQueryData(query).catch(() => undefined)
      if (!before || (before[0]?.to === to && before[0].label === label)) return
      const value = [{ to, label: label.slice(0, 200) }, ...before.filter((one) => one.to !== to)].slice(0, MOST)
      queries.setQueryData(query.queryKey, value)
      await call('PUT', `${ALL}${KEY}/`, { body: { value } }).catch(() => {})
    }, LOOK)
    return () => clearTimeout(timer)
  }, [to, label])
}
