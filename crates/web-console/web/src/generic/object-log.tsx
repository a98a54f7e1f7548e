// The last lines of the administration log about one thing, with the way to all of them.

import { useQuery } from '@tanstack/react-query'
import { page } from '../api/query.ts'
import { session } from '../api/session.ts'
import type { Fields, Instance, Json } from '../api/shapes.ts'
import { Moment, nameOf, Tag } from '../kit/values.tsx'
import { type Key, named, t } from '../texts.ts'
import look from './generic.module.css'
import { Link } from './go.tsx'
import { Added } from './log-values.tsx'

const changedFields = (changes: Json | undefined) =>
  Object.keys((changes as Fields | null) ?? {})
    .map((alias) => named('field', alias))
    .join(', ')

export const mayReadLog = (): boolean => session()?.permissions?.administration_log?.list === true

/** The parts of an object whose log entries are listed with its own: their list and their names. */
export interface LogParts {
  resource: string
  list: string
  text: Key
}

const LOG = '/api/administration/log/'
const SHOWN = 10
/** The newest parts alone are looked for, and their newest lines. */
const LOOKED = 100

/** The lines about the parts of an object: the log has their numbers only. */
function usePartLines(parts: LogParts | undefined): Instance[] {
  const isWanted = parts !== undefined && mayReadLog()
  const list = useQuery({ ...page(parts?.list ?? '', `ordering=-id&limit=${LOOKED}`), enabled: isWanted })
  const ids = new Set((list.data?.results ?? []).map(({ id }) => Number(id)))
  const range = `resource=${parts?.resource}&object_id__gte=${Math.min(...ids)}&limit=${LOOKED}`
  const lines = useQuery({ ...page(LOG, range), enabled: isWanted && ids.size > 0 })
  return lines.data?.results.filter(({ object_id }) => ids.has(Number(object_id))) ?? []
}

/** The subject of an entry, beside its action. */
function What({ line, parts }: { line: Instance; parts: LogParts | undefined }) {
  if (parts && line.resource === parts.resource) return ` ${t(parts.text, { name: `${line.object_name}` })}`
  const action = `${line.action}`
  if (action === 'create') return null
  if (action.startsWith('add_') || action.startsWith('remove_')) return <Added line={line} />
  return changedFields(line.changes)
}

/** `filter`: the parameters of the log that leave the lines about it alone. */
export function ObjectLog({ filter, parts }: { filter: string; parts?: LogParts | undefined }) {
  const log = useQuery({ ...page(LOG, `${filter}&limit=${SHOWN}`), enabled: mayReadLog() })
  const partLines = usePartLines(parts)
  if (!log.data || log.data.results.length === 0) return null
  const lines = [...log.data.results, ...partLines].toSorted((a, b) => Number(b.id) - Number(a.id)).slice(0, SHOWN)
  return (
    <section className={look.section}>
      <h2>{t('log')}</h2>
      <ol className={look.timeline}>
        {lines.map((line) => (
          <li key={`${line.id}`}>
            <div>
              <Tag>{named('event', `${line.action}`)}</Tag> <What line={line} parts={parts} />
            </div>
            <div className={look.when}>
              <Moment value={`${line.at}`} />
              {` · ${line.by ? nameOf(line.by as unknown as Parameters<typeof nameOf>[0]) : t('the-system')}`}
            </div>
          </li>
        ))}
      </ol>
      <Link to={`/admin/log?${filter}`}>{t('whole-log')}</Link>
    </section>
  )
}
