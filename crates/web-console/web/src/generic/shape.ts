// Reads and writes a resource as flat instances.

import { instance, invalidate, options, page } from '../api/query.ts'
import { call, Refusal } from '../api/request.ts'
import type { Fields, Instance } from '../api/shapes.ts'
import type { Resource, Shape } from './resource.ts'

export const describedBy = ({ path, shape }: Pick<Resource, 'path' | 'shape'>) => ({
  ...options(path),
  ...(shape && { select: shape.options }),
})

/** One function for each shape, so that its results are cached. */
const selects = new WeakMap<Shape, ReturnType<typeof selectsOf>>()
const selectsOf = (shape: Shape) => ({
  page: <T extends { results: Instance[] }>(found: T): T => ({ ...found, results: found.results.map(shape.instance) }),
  instance: <T extends { instance: Instance }>(read: T): T => ({ ...read, instance: shape.instance(read.instance) }),
})
const selecting = (shape: Shape) => {
  const select = selects.get(shape) ?? selectsOf(shape)
  selects.set(shape, select)
  return select
}

export const pageOf = ({ path, shape }: Resource, parameters: string) => ({
  ...page(path, parameters),
  ...(shape && { select: selecting(shape).page }),
})

export const instanceOf = (path: string, shape: Shape | undefined) => ({
  ...instance(path),
  ...(shape && { select: selecting(shape).instance }),
})

/** Sends the values of a form. A refusal has the names of the form. */
export async function sendFields(
  method: 'POST' | 'PATCH',
  path: string,
  values: Fields,
  shape: Shape | undefined,
  ifMatch: string | null = null,
) {
  const body = shape ? shape.body(values) : values
  return call<Instance>(method, path, { body, ifMatch }).catch((error: unknown) => {
    if (!shape || !(error instanceof Refusal)) throw error
    throw error.saying(shape.messages(error.body))
  })
}

export const invalidateResource = ({ path, instances }: Resource) => invalidate(path, ...(instances ? [instances] : []))
