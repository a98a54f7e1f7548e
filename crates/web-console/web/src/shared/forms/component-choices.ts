// The components that a form can have, and their parameters.

import { useQuery } from '@tanstack/react-query'
import { instance as instanceQuery, page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Choice, Field, Fields, Json, Use } from '../../api/shapes.ts'
import { t } from '../../texts.ts'
import { COMPONENTS } from '../components/known.ts'
import { parameterFields } from '../components/parameters.ts'

const mayList = () => session()?.permissions?.custom_component?.list === true

/** The enabled components that one of these places offers; none if the caller may not list them. */
export function useComponentChoices(uses: Use[]): Choice[] {
  const components = useQuery({ ...page(COMPONENTS, 'is_enabled=true&ordering=name&limit=1000'), enabled: mayList() })
  const isOffered = (places: Json | undefined) => uses.some((use) => ((places ?? {}) as Fields)[use] === true)
  return (components.data?.results ?? []).flatMap(({ id, name, available_use }) =>
    isOffered(available_use) ? { value: Number(id), text: `${name}` } : [],
  )
}

/** The field `parameters`, as the component declares it; JSON if that is unknown, and nothing if it has none. */
export function useParameterFields(component: Json | undefined): Field[] {
  const isNamed = typeof component === 'number'
  const read = useQuery({ ...instanceQuery(`${COMPONENTS}${component}/`), enabled: isNamed && mayList() })
  const common = { alias: 'parameters', required: true, label: t('forms.item.parameters') }
  if (!isNamed || (mayList() && read.isPending)) return []
  if (!read.data) return [{ ...common, type: 'json', required: false }]
  const schema = parameterFields(read.data.instance.parameters)
  return schema.length > 0 ? [{ ...common, type: 'object', schema }] : []
}
