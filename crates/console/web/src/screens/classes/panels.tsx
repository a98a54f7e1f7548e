// What stands on the page of a class beside its fields: the form that they give, forms, templates, owners.

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
import { Select } from '../../kit/fields.tsx'
import { part } from '../../kit/part.tsx'
import { Tag } from '../../kit/values.tsx'
import { labelOf, t } from '../../texts.ts'
import { PermissionSets } from '../permission-sets.tsx'
import look from './classes.module.css'

const Preview = part(() => import('./preview.tsx').then((found) => found.Preview))

export const FORMS = '/api/object-class-forms/'

/** What can be done from here: look at the form, go to the records, the templates. */
export function ClassLinks({ instance, path }: PanelProps) {
  const [isOpen, setIsOpen] = useState(false)
  const route = `/admin/classes/${instance.id}`
  return (
    <div className={look.links}>
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
  const { data } = useQuery({ ...page(path, 'type=string&limit=500'), enabled: instance !== undefined })
  if (!instance || !data) return null
  return (
    <Select
      name={name}
      label={labelOf(field)}
      hint={t('field.label_field.hint')}
      value={value as string | null}
      choices={data.results.map(({ alias, label }) => ({ value: `${alias}`, text: `${label}` }))}
      onChange={(alias) => onChange((alias ?? null) as Json)}
    />
  )
}
