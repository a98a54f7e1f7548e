// The pages of one instance, of whichever resource the address names.

import { Suspense, use } from 'react'
import { fetched } from '../kit/part.tsx'
import { RESOURCES } from '../resources/index.ts'
import { NotFound } from '../screens/not-found.tsx'
import { Create, Detail } from './detail.tsx'
import { useHere } from './go.tsx'
import type { Parts, Resource } from './resource.ts'

const NONE = Promise.resolve({ parts: {} })
const all = new Map<Resource, Promise<{ parts: Parts }>>()

function partsOf(resource: Resource): Promise<{ parts: Parts }> {
  const known = all.get(resource) ?? (resource.parts ? fetched(resource.parts)() : NONE)
  all.set(resource, known)
  known.catch(() => all.delete(resource))
  return known
}

const given = ({ fromAddress = [] }: Resource, search: string) =>
  Object.fromEntries([...new URLSearchParams(search)].filter(([alias]) => fromAddress.includes(alias)))

function Page({ resource, id, path, search }: { resource: Resource; id: string; path: string; search: string }) {
  const { parts } = use(partsOf(resource))
  return id === 'new' ? (
    <Create
      key={path}
      resource={resource}
      parts={parts}
      initial={{ ...resource.initial, ...given(resource, search) }}
    />
  ) : (
    <Detail key={path} resource={resource} parts={parts} id={id} />
  )
}

export function OnePage() {
  const { path, search } = useHere()
  const resource = RESOURCES.find(({ route }) => path.startsWith(`${route}/`))
  if (!resource) return <NotFound />
  const id = path.slice(resource.route.length + 1).replace(/\/$/, '')
  return (
    <Suspense>
      <Page resource={resource} id={id} path={path} search={search} />
    </Suspense>
  )
}
