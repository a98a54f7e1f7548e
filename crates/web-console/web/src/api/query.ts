// The cache of everything that was read. It is refetched when it may have changed.

import { keepPreviousData, notifyManager, QueryClient, queryOptions } from '@tanstack/react-query'
import { useEffect } from 'react'
import { call, get, Refusal } from './request.ts'
import type { Instance, Options, Page } from './shapes.ts'

// Within the event that caused it. A controlled input would otherwise show its old value for a moment.
notifyManager.setScheduler(queueMicrotask)

/** Reasons against a refetch: selected rows, or a form with changes. */
const undisturbed = new Set<object>()

/** Prevents automatic refetches, for example on return to the tab, while `isHeld`. */
export function useUndisturbed(isHeld: boolean) {
  useEffect(() => {
    if (!isHeld) return
    const reason = {}
    undisturbed.add(reason)
    return () => {
      undisturbed.delete(reason)
    }
  }, [isHeld])
}

const isFree = () => undisturbed.size === 0

/** The milliseconds until a failed request is retried. `count`: the failures before. */
export const retryDelay = (count: number, error: unknown): number =>
  error instanceof Refusal && error.retryAfter ? error.retryAfter * 1000 : 500 * 2 ** count

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: isFree,
      refetchOnReconnect: isFree,
      retry: (count, error) => error instanceof Refusal && error.isPassing && count < 4,
      retryDelay,
    },
  },
})

/** An instance beside the entity tag of the state that was read. */
export interface Read {
  instance: Instance
  etag: string | null
}

export const options = (path: string) =>
  queryOptions({
    queryKey: [path, 'options'],
    queryFn: async () => (await call<Options>('OPTIONS', path)).data,
    staleTime: 300_000,
  })

export const page = (path: string, parameters: string) =>
  queryOptions({
    queryKey: [path, 'list', parameters],
    queryFn: ({ signal }) => get<Page>(parameters ? `${path}?${parameters}` : path, signal),
    placeholderData: keepPreviousData,
  })

export const instance = (path: string) =>
  queryOptions({
    queryKey: [path, 'instance'],
    queryFn: async ({ signal }): Promise<Read> => {
      const { data, etag } = await call<Instance>('GET', path, { signal })
      return { instance: data, etag }
    },
  })

export const anything = <T>(path: string) =>
  queryOptions({ queryKey: [path, 'value'], queryFn: ({ signal }) => get<T>(path, signal) })

/** Refetches everything at or below one of these paths after a write. */
export function invalidate(...paths: string[]) {
  const touches = (key: unknown) => typeof key === 'string' && paths.some((path) => key.startsWith(path))
  return queries.invalidateQueries({ predicate: ({ queryKey }) => touches(queryKey[0]) && queryKey[1] !== 'options' })
}
