// The page of a class beside its fields: preview, forms, templates, owners.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { page } from '../../api/query.ts'
import type { Json } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { Members } from '../../generic/members.tsx'
import { type InputProps, may, type PanelProps } from '../../generic/resource.ts'
import { Turn } from '../../generic/turn.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Chooser } from '../../kit/fields.tsx'
import { part } from '../../kit/part.tsx'
import { Tag } from '../../kit/values.tsx'
import designer from '../../shared/designer.module.css'
import { PermissionSets } from '../../shared/permission-sets.tsx'
import { labelOf, t } from '../../texts.ts'

const Preview = part(() => import('./preview.tsx').then((module) => module.Preview))

export const FORMS = '/api/object-class-forms/'

/** The links of the page: preview, records, templates. */
export function ClassLinks({ instance, path }: PanelProps) {
  const [isOpen, setIsOpen] = useState(false)
  const route = `/admin/classes/${instance.id}`
  return (
    <div className={designer.links}>
      <Button onPress={() => setIsOpen(true)}>{t('preview')}</Button>
      <Link className={css.button} to={`/records/${instance.alias}`}>
        {t('class.records')}
      </Link>
      {may(instance, 'edit') && (
        <Link className={css.button} to={`${route}/templates`}>
          {t('document-templates')}
        </Link>
      )}
      {isOpen && <Preview classPath={path} onClose={() => setIsOpen(false)} />}
    </div>
  )
}

const SIZE = 25

export function ClassForms({ instance }: PanelProps) {
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(FORMS, `object_class=${instance.id}&ordering=name&limit=${SIZE}&offset=${at}`)
  const { data } = useQuery(query(offset))
  const route = `/admin/classes/${instance.id}/forms`
  if (!data) return null
  return (
    <section className={generic.section} aria-label={t('forms')}>
      <h2>{t('forms')}</h2>
      {data.results.length === 0 && <p className={generic.none}>{t('forms.nothing')}</p>}
      <ul className={generic.plain}>
        {data.results.map((form) => (
          <li key={`${form.uuid}`} className={generic.member}>
            <Link to={`${route}/${form.uuid}`}>{`${form.name}`}</Link>
            <Tag value={form.is_enabled ? 'active' : ''}>{form.is_enabled ? t('forms.on') : t('forms.off')}</Tag>
          </li>
        ))}
      </ul>
      <Turn page={data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
      {may(instance, 'edit') && (
        <div>
          <Link className={css.button} to={`${route}/new`}>
            {t('create-one', { one: t('forms.one') })}
          </Link>
        </div>
      )}
    </section>
  )
}

export const ClassOwners = ({ instance, path }: PanelProps) => (
  <Members title="owners" path={`${path}owners/`} canChange={may(instance, 'edit_perm_set')} isEachOwn />
)

export const ClassSets = ({ instance, path }: PanelProps) => (
  <PermissionSets path={`${path}permission-sets/`} canChange={may(instance, 'edit_perm_set')} />
)

/** Records are called by a field of texts. */
export function LabelField({ field, name, value, onChange, instance }: InputProps) {
  const path = `/api/object-classes/${instance?.id}/fields/`
  // The name of the chosen user.
  const chosen = useQuery({
    ...page(path, `alias=${encodeURIComponent(`${value}`)}&limit=1`),
    enabled: instance !== undefined && typeof value === 'string',
  })
  if (!instance) return null
  return (
    <Chooser
      name={name}
      label={labelOf(field)}
      hint={t('field.label_field.hint')}
      value={(value ?? null) as string | null}
      text={typeof value === 'string' ? `${chosen.data?.results[0]?.label ?? value}` : undefined}
      autocomplete={`${path}?type=string&limit=50&label__icontains=`}
      by="alias"
      onChange={(choice) => onChange((choice?.value ?? null) as Json)}
    />
  )
}
