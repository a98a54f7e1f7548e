// UI configurations as the API keeps them. One that is not there, or cannot be read, counts as empty: no page needs one.

import { queryOptions, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { parseJson, writeJson } from '../api/json.ts'
import { queries } from '../api/query.ts'
import { call, Refusal } from '../api/request.ts'
import { addConfigured, mayBeConfigured, renew, session } from '../api/session.ts'
import type { Fields, Json } from '../api/shapes.ts'
import type { Reading } from '../api/written.ts'

export interface Kept {
  /** Undefined if the configuration was never stored. */
  content: Json | undefined
  etag: string | null
  components: Json[]
  /** The members that other front ends store in the same place. The console does not change them. */
  uploads: Json[]
}

const pathOf = (component: string) => `/ui-config/${component}/`

const keptOf = (data: Fields, etag: string | null): Kept => ({
  content: parseJson(`${data.content}`),
  etag,
  components: data.custom_components as Json[],
  uploads: data.upload_component as Json[],
})

const NOTHING: Kept = { content: undefined, etag: null, components: [], uploads: [] }

/** Reads existing configurations only: browsers write each 404 into their consoles. */
async function read(component: string, signal?: AbortSignal): Promise<Kept> {
  if (!mayBeConfigured(component)) return NOTHING
  try {
    const { data, etag } = await call<Fields>('GET', pathOf(component), signal ? { signal } : {})
    return keptOf(data, etag)
  } catch (refused) {
    if (!(refused instanceof Refusal) || refused.status !== 404) throw refused
    return NOTHING
  }
}

/** Reads before a write: the session may be older than the changes of others. */
export async function readToWrite(component: string): Promise<Kept> {
  await renew()
  return read(component)
}

const configuration = (component: string) =>
  queryOptions({
    queryKey: [pathOf(component), 'configuration'],
    queryFn: ({ signal }) => read(component, signal),
    staleTime: 300_000,
    refetchOnWindowFocus: false,
  })

/** The content of a configuration. `isKnown` is true when it was read or does not exist. */
export function useConfiguration<T>(
  component: string,
  understand: (content: Json | undefined) => Reading<T>,
  enabled = true,
): Reading<T> & { isKnown: boolean } {
  const isAsked = enabled && mayBeConfigured(component)
  const { data, isPending } = useQuery({ ...configuration(component), enabled: isAsked })
  const content = data?.content
  const understood = useMemo(() => understand(content), [content, understand])
  return { ...understood, isKnown: !isPending || (enabled && !isAsked) }
}

/** Stores a content in place of the one that was read. */
export async function storeConfiguration(
  component: string,
  content: Fields,
  before: Kept,
  components = before.components,
) {
  const body = {
    content: writeJson(content),
    custom_components: components,
    upload_component: before.uploads,
  }
  const { data, etag } = await call<Fields>('POST', pathOf(component), { body, ifMatch: before.etag })
  const now = keptOf(data, etag)
  addConfigured(component)
  queries.setQueryData(configuration(component).queryKey, now)
  return now
}

export const mayConfigure = () => session()?.permissions?.ui_config?.create === true
