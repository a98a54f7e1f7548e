// The results of the search over everything, with their addresses.

import { keepPreviousData, queryOptions, useQueries } from '@tanstack/react-query'
import { get } from '../../api/request.ts'
import type { Found, Instance } from '../../api/shapes.ts'
import { CLASSES } from './class.ts'

export const LONGEST = 200

export const search = (text: string, limit: number) =>
  queryOptions({
    queryKey: ['/api/search/', text, limit],
    queryFn: async ({ signal }) => {
      const asked = new URLSearchParams({ text: text.slice(0, LONGEST), limit: `${limit}` })
      const { results } = await get<{ results: Found[] }>(`/api/search/?${asked}`, signal)
      return results
    },
    enabled: text !== '',
    placeholderData: keepPreviousData,
    retry: false,
  })

export function foundRoute({ type, id }: Found): string {
  if (type === 'object_record') return `/records/-/${id}`
  return type === 'user' ? `/admin/users/${id}` : `/admin/groups/${id}`
}

/** The names of the classes of the results. Each is read once. */
export function useClassNames(found: Found[]): Map<number, string> {
  const ids = [...new Set(found.flatMap(({ object_class }) => object_class ?? []))]
  const classes = useQueries({
    queries: ids.map((id) => ({
      queryKey: [`${CLASSES}${id}/`, 'class'],
      queryFn: () => get<Instance>(`${CLASSES}${id}/`),
      staleTime: 60_000,
    })),
  })
  return new Map(
    ids.flatMap((id, n): [number, string][] => (classes[n]?.data ? [[id, `${classes[n].data.name}`]] : [])),
  )
}
