// A new record by a standalone form.

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { anything } from '../../api/query.ts'
import type { Field, Fields, Instance, Json } from '../../api/shapes.ts'
import { Create } from '../../generic/detail.tsx'
import { Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import type { InputProps, Parts } from '../../generic/resource.ts'
import { t } from '../../texts.ts'
import type { OpenClass } from './class.ts'
import { layoutOf } from './form-layout.ts'

const FORMS = '/api/object-class-forms/'

export function FormPage({ found, parts, uuid }: { found: OpenClass; parts: Parts; uuid: string }) {
  const path = `${FORMS}${encodeURIComponent(uuid)}/`
  const form = useQuery(anything<Instance>(path))
  const read = useQuery(anything<{ configuration: Json }>(`${path}configuration/`))
  const configuration = read.data?.configuration
  const layout = useMemo(() => {
    if (configuration === undefined) return undefined
    return (fields: Field[], values: Fields) => {
      const made = layoutOf(configuration, fields, values, t('records.form.no-component'))
      if (!made) return { fields }
      const said = ({ name }: InputProps) => <p className={generic.written}>{made.texts[name]}</p>
      return {
        fields: made.fields,
        sections: made.sections,
        inputs: { ...parts.inputs, ...Object.fromEntries(Object.keys(made.texts).map((name) => [name, said])) },
      }
    }
  }, [configuration, parts])
  if (!form.data || !layout) return <Reading of={[form, read]} title={t('forms.one.title')} />
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
