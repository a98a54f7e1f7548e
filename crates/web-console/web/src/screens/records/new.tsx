// The ways to make a record of a class: by one of its forms, or by all of its fields. A form that is the only one is the
// way at first.

import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useEffect } from 'react'
import { page } from '../../api/query.ts'
import { Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import { mayRecords, useClass } from '../../shared/records/class.ts'
import { t } from '../../texts.ts'
import { NewRecord } from './record.tsx'
import look from './records.module.css'

/** The maximum number of forms that are offered. */
const MOST = 25

export function New() {
  const { alias } = useParams({ strict: false }) as { alias: string }
  const { search } = useHere()
  const go = useGo()
  const asked = new URLSearchParams(search)
  const chosen = asked.get('form') ?? undefined
  const isAll = asked.has('all')
  const { openClass } = useClass(alias)
  const isAllowed = openClass !== undefined && mayRecords(openClass.instance, 'create')
  // The list has those alone that the caller may see.
  const parameters = `object_class=${openClass?.id}&type=create&is_enabled=true&ordering=name&limit=${MOST}`
  const forms = useQuery({ ...page('/api/object-class-forms/', parameters), enabled: isAllowed, staleTime: 60_000 })
  const all = forms.data?.results ?? []
  const route = `/records/${alias}/new`
  const only = !chosen && !isAll && all.length === 1 ? `${all[0]?.uuid}` : undefined
  // biome-ignore lint/correctness/useExhaustiveDependencies: `go` is a new function in each drawing
  useEffect(() => {
    if (only) go(`${route}?form=${only}`, true)
  }, [only, route])
  if (!isAllowed || (forms.data && all.length === 0)) return <NewRecord />
  if (only) return null
  if (!forms.data && !chosen) return <Reading of={[forms]} title={t('create-one', { one: openClass.name })} />
  const ways = [
    ...all.map((form) => ({ to: `${route}?form=${form.uuid}`, text: `${form.name}`, isCurrent: form.uuid === chosen })),
    { to: `${route}?all=`, text: t('records.new.all'), isCurrent: isAll && !chosen },
  ]
  if (!chosen && !isAll) {
    return (
      <>
        <nav className={generic.trail} aria-label={t('trail')}>
          <Link to={`/records/${alias}`}>{openClass.name}</Link>
        </nav>
        <header className={generic.head}>
          <h1 tabIndex={-1}>{t('create-one', { one: openClass.name })}</h1>
        </header>
        <section className={generic.section} aria-label={t('records.new.ways')}>
          <p>{t('records.new.choose')}</p>
          <ul className={generic.plain}>
            {ways.map(({ to, text }) => (
              <li key={to} className={generic.set}>
                <Link to={to}>{text}</Link>
              </li>
            ))}
          </ul>
        </section>
      </>
    )
  }
  return (
    <>
      <nav className={look.ways} aria-label={t('records.new.ways')}>
        {ways.map(({ to, text, isCurrent }) => (
          <Link key={to} to={to} isCurrent={isCurrent} className={look.way}>
            {text}
          </Link>
        ))}
      </nav>
      <NewRecord key={chosen ?? ''} />
    </>
  )
}
