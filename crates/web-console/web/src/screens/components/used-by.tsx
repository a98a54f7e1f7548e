// The forms and the parts of the interface that use a component.

import { useQuery } from '@tanstack/react-query'
import { page } from '../../api/query.ts'
import { get } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Instance, Page } from '../../api/shapes.ts'
import { Reading } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import type { PanelProps } from '../../generic/resource.ts'
import css from '../../kit/controls.module.css'
import { interfaceWith, names } from '../../shared/components/log.ts'
import { t } from '../../texts.ts'

const FORMS = '/api/object-class-forms/'
/** The maximum number of forms that are searched: no filter finds those of a component. */
const PAGE = 1000
const PAGES = 5

async function formsWith(component: number, signal: AbortSignal) {
  const matchingForms: Instance[] = []
  for (let n = 0; n < PAGES; n++) {
    const { results, next } = await get<Page>(`${FORMS}?ordering=name&limit=${PAGE}&offset=${n * PAGE}`, signal)
    matchingForms.push(...results.filter((form) => names(form.custom_components, component)))
    if (!next) return { found: matchingForms, isWhole: true }
  }
  return { found: matchingForms, isWhole: false }
}

export function UsedBy({ instance }: PanelProps) {
  const id = Number(instance.id)
  const mayReadLog = session()?.permissions?.administration_log?.list === true
  const forms = useQuery({
    queryKey: [FORMS, 'of component', id],
    queryFn: ({ signal }) => formsWith(id, signal),
    staleTime: 60_000,
  })
  const log = useQuery({
    ...page('/api/administration/log/', 'resource=ui_config&ordering=-id&limit=1000'),
    enabled: mayReadLog,
  })
  const parts = interfaceWith(id, log.data?.results ?? [])
  const isNone = forms.data?.found.length === 0 && parts.length === 0
  return (
    <section className={look.section}>
      <h2>{t('custom-components.used-by')}</h2>
      <Reading of={[forms]} />
      {isNone && <p className={look.none}>{t('custom-components.unused')}</p>}
      <ul className={look.plain}>
        {forms.data?.found.map((form) => (
          <li key={`${form.uuid}`}>
            <Link to={`/admin/classes/${form.object_class}/forms/${form.uuid}`}>{`${form.name}`}</Link>{' '}
            <span className={css.optional}>{`${form._meta?.labels?.object_class ?? ''}`}</span>
          </li>
        ))}
        {parts.map((name) => (
          <li key={name}>
            <code>{`/ui-config/${name}/`}</code>
          </li>
        ))}
      </ul>
      {forms.data && !forms.data.isWhole && (
        <p className={css.hint}>{t('custom-components.used-by.first', { count: PAGE * PAGES })}</p>
      )}
      <p className={css.hint}>{t('custom-components.used-by.hint')}</p>
    </section>
  )
}
