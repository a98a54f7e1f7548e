// The last lines of the administration log about one thing, with the way to all of them.

import { useQuery } from '@tanstack/react-query'
import { page } from '../api/query.ts'
import { session } from '../api/session.ts'
import type { Fields, Json } from '../api/shapes.ts'
import { Moment, nameOf, Tag } from '../kit/values.tsx'
import { named, t } from '../texts.ts'
import look from './generic.module.css'
import { Link } from './go.tsx'

const changedFields = (changes: Json | undefined) =>
  Object.keys((changes as Fields | null) ?? {})
    .map((alias) => named('field', alias))
    .join(', ')

export const mayReadLog = (): boolean => session()?.permissions?.administration_log?.list === true

/** `filter`: the parameters of the log that leave the lines about it alone. */
export function ObjectLog({ filter }: { filter: string }) {
  const log = useQuery({ ...page('/api/administration/log/', `${filter}&limit=10`), enabled: mayReadLog() })
  if (!log.data || log.data.results.length === 0) return null
  return (
    <section className={look.section}>
      <h2>{t('log')}</h2>
      <ol className={look.timeline}>
        {log.data.results.map((line) => (
          <li key={`${line.id}`}>
            <div>
              <Tag>{named('event', `${line.action}`)}</Tag> {line.action !== 'create' && changedFields(line.changes)}
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
