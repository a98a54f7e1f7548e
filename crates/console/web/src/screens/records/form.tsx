// A new record by a standalone form.

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { anything } from '../../api/query.ts'
import type { Field, Fields, Instance, Json } from '../../api/shapes.ts'
import { Create } from '../../generic/detail.tsx'
import { FailurePage } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import type { InputProps, Parts } from '../../generic/resource.ts'
import { ComponentInput, ShownComponent } from '../forms/component-input.tsx'
import type { OpenClass } from './class.ts'
import { layoutOf } from './form-layout.ts'

const FORMS = '/api/object-class-forms/'

/** Each form calls its components itself, so these are the same whatever is typed, and no frame begins anew. */
function Component({ field, name, value, onChange }: InputProps) {
  return field.custom ? (
    <ComponentInput field={field} custom={field.custom} name={name} value={value} onChange={onChange} />
  ) : null
}
const Beside = ({ field }: InputProps) =>
  field.custom ? <ShownComponent custom={field.custom} label={field.label} /> : null
const Said = ({ field }: InputProps) => <p className={generic.written}>{field.label}</p>

const inputFor = ({ alias, custom }: Field) => (custom ? (alias.startsWith('.') ? Beside : Component) : Said)

export function FormPage({ found, parts, uuid }: { found: OpenClass; parts: Parts; uuid: string }) {
  const path = `${FORMS}${encodeURIComponent(uuid)}/`
  const form = useQuery(anything<Instance>(path))
  const read = useQuery(anything<{ configuration: Json }>(`${path}configuration/`))
  const configuration = read.data?.configuration
  const layout = useMemo(() => {
    if (configuration === undefined) return undefined
    return (fields: Field[], values: Fields) => {
      const made = layoutOf(configuration, fields, values)
      if (!made) return { fields }
      const own = made.fields.filter(({ alias, type, custom }) => (custom && type !== 'file') || alias.startsWith('.'))
      return {
        fields: made.fields,
        sections: made.sections,
        inputs: { ...parts.inputs, ...Object.fromEntries(own.map((field) => [field.alias, inputFor(field)])) },
      }
    }
  }, [configuration, parts])
  const error = form.error ?? read.error
  if (error) return <FailurePage error={error} />
  if (!form.data || !layout) return null
  const asked = found.fields.filter((field) => field.default !== undefined && field.default !== null)
  return (
    <Create
      resource={found.resource}
      parts={parts}
      title={`${form.data.name}`}
      layout={layout}
      initial={Object.fromEntries(asked.map((field) => [field.alias, field.default as Json]))}
    />
  )
}
