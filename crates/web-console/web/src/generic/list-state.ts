// The state of a list, which its address holds, and the page that the state asks for.

import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import type { Column, Instance, Options, Page } from '../api/shapes.ts'
import { type ListState, query, read, write } from './address.ts'
import { useGo, useHere } from './go.tsx'
import { remember } from './neighbours.tsx'
import { keyOf, type Resource } from './resource.ts'
import { describedBy, pageOf } from './shape.ts'

/** The columns of a resource from its schema document. */
export function useListColumns(resource: Resource): { description: UseQueryResult<Options>; columns: Column[] } {
  const description = useQuery(describedBy(resource))
  const columns = useMemo(
    () =>
      (description.data?.list?.columns ?? []).map((column) =>
        resource.records?.includes(column.alias) ? { ...column, type: 'relation' } : column,
      ),
    [description.data, resource],
  )
  return { description, columns }
}

/** The state in the address of this page, and the function that goes to the address of another state. */
export function useListState(columns: Column[]): [ListState, (next: ListState, isReplaced?: boolean) => void] {
  const go = useGo()
  const { path, search } = useHere()
  const state = useMemo(() => read(search, columns), [search, columns])
  return [state, (next, isReplaced = false) => go(path + write(next), isReplaced)]
}

interface ListPage {
  page: UseQueryResult<Page>
  rows: Instance[]
  /** The parameters of the query. */
  parameters: string
  /** Reads the page after this one. */
  nextPage: ReturnType<typeof pageOf>
}

/** The page of a list that a state asks for. `fixed`: parameters that every page of the list has. */
export function useListPage(
  resource: Resource,
  state: ListState,
  fixed: { [name: string]: string } | undefined,
  isDescribed: boolean,
): ListPage {
  const parameters = query(state, fixed)
  const page = useQuery({ ...pageOf(resource, parameters), enabled: isDescribed })
  const nextPage = pageOf(resource, query({ ...state, offset: state.offset + state.limit }, fixed))
  return { page, rows: page.data?.results ?? [], parameters, nextPage }
}

/** Stores the keys of a page for the links to the previous and the next instance. */
export function useRememberedKeys(resource: Resource, page: Page | undefined) {
  useEffect(() => {
    if (page)
      remember(
        resource.route,
        page.results.map((row) => keyOf(resource, row)),
      )
  }, [page, resource])
}
