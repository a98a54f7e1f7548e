// The pages of one instance of a resource.

import { Suspense, use } from 'react'
import { fetched } from '../kit/part.tsx'
import { Create, Detail } from './detail.tsx'
import { useHere } from './go.tsx'
import type { Parts, Resource } from './resource.ts'

/** Fetches what a screen adds to the pages of a resource. */
export type LoadParts = () => Promise<{ parts: Parts }>

const NONE = Promise.resolve({ parts: {} })
const all = new Map<Resource, Promise<{ parts: Parts }>>()

function partsOf(resource: Resource, load: LoadParts | undefined): Promise<{ parts: Parts }> {
  const loading = all.get(resource) ?? (load ? fetched(load)() : NONE)
  all.set(resource, loading)
  loading.catch(() => all.delete(resource))
  return loading
}

const fromSearch = ({ fromAddress = [] }: Resource, search: string) =>
  Object.fromEntries([...new URLSearchParams(search)].filter(([alias]) => fromAddress.includes(alias)))

interface PageProps {
  resource: Resource
  load: LoadParts | undefined
  id: string
  path: string
  search: string
}

function Page({ resource, load, id, path, search }: PageProps) {
  const { parts } = use(partsOf(resource, load))
  return id === 'new' ? (
    <Create
      key={path}
      resource={resource}
      parts={parts}
      initial={{ ...resource.initial, ...fromSearch(resource, search) }}
    />
  ) : (
    <Detail key={path} resource={resource} parts={parts} id={id} />
  )
}

/** The page of one instance of a resource, with the parts that are fetched when the first page is opened. */
export function OnePage({ resource, load }: { resource: Resource; load: LoadParts | undefined }) {
  const { path, search } = useHere()
  const id = path.slice(resource.route.length + 1).replace(/\/$/, '')
  return (
    <Suspense>
      <Page resource={resource} load={load} id={id} path={path} search={search} />
    </Suspense>
  )
}
