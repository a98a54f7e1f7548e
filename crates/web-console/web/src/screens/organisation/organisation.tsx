// The screens of the organisation: company and limits.

import { useQuery } from '@tanstack/react-query'
import { anything } from '../../api/query.ts'
import type { Limits as Counted } from '../../api/shapes.ts'
import { Reading } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { Single } from '../../generic/single.tsx'
import { MessagePreview } from '../../shared/message-preview.tsx'
import { named, t } from '../../texts.ts'

export function Company() {
  return (
    <Single
      title="company"
      name="company_details"
      path="/api/administration/company-details/"
      sections={[
        {
          title: 'section.contact',
          fields: [
            'admin_first_name',
            'admin_last_name',
            'admin_job_title',
            'admin_email_address',
            'admin_phone_number',
            'admin_email_signature',
          ],
        },
      ]}
      panels={[MessagePreview]}
    />
  )
}

/** Counters, nearest to full first. */
export function Limits() {
  const limits = useQuery(anything<Counted>('/api/limits/'))
  if (!limits.data) return <Reading of={[limits]} title={t('limits')} />
  const { additional_limits: more, ...counted } = limits.data
  const all = Object.entries(counted).toSorted(([, a], [, b]) => b.count / b.limit - a.count / a.limit)
  return (
    <>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t('limits')}</h1>
      </header>
      <div className={look.main}>
        <section className={look.section}>
          <h2>{t('limits.counted')}</h2>
          <dl className={look.facts}>
            {all.map(([name, { count, limit }]) => (
              <div key={name} className={look.fact}>
                <dt>{named('resource', name)}</dt>
                <dd>
                  <meter min={0} max={limit} high={limit * 0.9} value={count} aria-label={named('resource', name)} />{' '}
                  {t('count-of', { count, of: limit })}
                </dd>
              </div>
            ))}
          </dl>
        </section>
        <section className={look.section}>
          <h2>{t('limits.others')}</h2>
          <dl className={look.facts}>
            {Object.entries(more).map(([name, limit]) => (
              <div key={name} className={look.fact}>
                <dt>{named('resource', name)}</dt>
                <dd>{limit}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </>
  )
}
