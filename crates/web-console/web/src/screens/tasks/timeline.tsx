// The events of a task, newest first.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { page } from '../../api/query.ts'
import type { Field, Fields, Instance, Json, Reference } from '../../api/shapes.ts'
import generic from '../../generic/generic.module.css'
import { Button } from '../../kit/buttons.tsx'
import { Moment, nameOf, Tag, Value } from '../../kit/values.tsx'
import { labelOf, named, t } from '../../texts.ts'
import { TASKS } from './step-dialog.tsx'
import type { Step } from './steps.ts'

const STEP = 20

export function Timeline({ task, schema }: { task: Instance; schema: Field[] }) {
  const [limit, setLimit] = useState(STEP)
  const { data } = useQuery(page(`${TASKS}${task.id}/log/`, `limit=${limit}`))
  if (!data) return null
  const people = new Map<Json, string>()
  for (const one of (task.assignees ?? []) as unknown as Reference[]) people.set(one.id, nameOf(one))
  const groups = new Map<Json, string>()
  for (const one of (task.assignee_groups ?? []) as Fields[]) groups.set(one.id ?? null, `${one.name}`)
  /** Current assignees have names here; former ones do not. */
  const namesOf = (alias: string, value: Json | undefined): Json => {
    const names = alias === 'assignees' ? people : alias === 'assignee_groups' ? groups : undefined
    if (!names || !Array.isArray(value)) return value ?? null
    return value.map((id) => names.get(id) ?? `#${id}`)
  }
  const olderCount = (data.filtered_count ?? 0) - data.results.length
  return (
    <section className={generic.section} aria-label={t('task.log')}>
      <h2>{t('task.log')}</h2>
      <ol className={generic.timeline}>
        {data.results.map((line) => (
          <li key={`${line.id}`}>
            <div>
              <Tag>{t(`task.log.${line.action as Step}`)}</Tag>
            </div>
            {line.action !== 'create' && (
              <Changed changes={(line.changes ?? {}) as Fields} schema={schema} told={namesOf} />
            )}
            <div className={generic.when}>
              <Moment value={`${line.at}`} />
              {` · ${line.by ? nameOf(line.by as unknown as Reference) : t('the-system')}`}
              {line.source_type === 'mcp' && ` · ${t('task.by-agent')}`}
            </div>
          </li>
        ))}
      </ol>
      {olderCount > 0 && (
        <div>
          <Button onPress={() => setLimit(limit + STEP * 2)}>{t('show-more', { count: olderCount })}</Button>
        </div>
      )}
    </section>
  )
}

function Changed({
  changes,
  schema,
  told: namesOf,
}: {
  changes: Fields
  schema: Field[]
  told: (alias: string, value: Json | undefined) => Json
}) {
  const shown = Object.entries(changes).filter(([alias]) => alias !== 'status')
  return (
    <ul className={generic.changes}>
      {shown.map(([alias, pair]) => {
        const field = schema.find((one) => one.alias === alias)
        const [before, now] = Array.isArray(pair) ? pair : [null, pair]
        const show = (value: Json | undefined) => (
          <Value type={field?.type ?? 'string'} values={field?.values} value={namesOf(alias, value)} isShort />
        )
        const isEmpty = (value: Json | undefined) =>
          value === null || value === '' || (Array.isArray(value) && value.length === 0)
        return (
          <li key={alias}>
            <span className={generic.when}>{field ? labelOf(field) : named('field', alias)}</span>{' '}
            {!isEmpty(before) && (
              <>
                <del>{show(before)}</del>
                {' → '}
              </>
            )}
            {isEmpty(now) ? t('none') : show(now)}
          </li>
        )
      })}
    </ul>
  )
}
