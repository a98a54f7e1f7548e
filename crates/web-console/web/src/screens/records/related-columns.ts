// A list of records with filters over related records.

import type { Column, Options } from '../../api/shapes.ts'
import type { Resource } from '../../generic/resource.ts'
import { RECORD } from '../../shared/records/shape.ts'
import { labelOf } from '../../texts.ts'

/** The columns of the related classes, each under the name of its relation. */
export function over(resource: Resource, relations: Column[], described: (Options | undefined)[]): Resource {
  const columns = relations.flatMap((relation, n) => {
    const related = described[n] && RECORD.options(described[n]).list?.columns
    return (related ?? [])
      .filter(({ is_parameter }) => !is_parameter)
      .map((column) => ({
        ...column,
        alias: `${relation.alias}.${column.alias}`,
        label: `${labelOf(relation)}: ${labelOf(column)}`,
        sort_ok: false,
        is_parameter: true,
      }))
  })
  const options = (own: Options): Options => {
    const flat = RECORD.options(own)
    return { ...flat, list: { columns: [...(flat.list?.columns ?? []), ...columns] } }
  }
  return { ...resource, shape: { ...RECORD, options } }
}
