// Views of a list that somebody keeps for himself: each is a name and an address.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { queries } from '../api/query.ts'
import { call, get } from '../api/request.ts'
import type { Page } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { TextField } from '../kit/fields.tsx'
import { say } from '../kit/toasts.tsx'
import { t } from '../texts.ts'
import { Failure, failureText } from './failure.tsx'
import look from './generic.module.css'
import { Link, useHere } from './go.tsx'

interface View {
  name: string
  search: string
}

const ALL = '/api/users/me/preferences/'
/** More would not fit into a value of a preference for certain. */
const MOST = 50

/** One change after the other. */
let writing = Promise.resolve()

export default function Views({ name, onDone }: { name: string; onDone: () => void }) {
  const { path, search } = useHere()
  const [called, setCalled] = useState('')
  const key = `console.views.${name
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]/g, '-')
    .slice(0, 80)}`
  const query = {
    queryKey: [ALL, key],
    queryFn: async () => ((await get<Page>(`${ALL}?key=${key}`)).results[0]?.value ?? []) as unknown as View[],
  }
  const { data: views, error, refetch } = useQuery(query)
  /** The whole list is written: so what another tab kept meanwhile is read before. */
  const keep = (change: (views: View[]) => View[]) => {
    writing = writing
      .then(async () => {
        const value = change(await queries.fetchQuery({ ...query, staleTime: 0 }))
        await call('PUT', `${ALL}${key}/`, { body: { value } })
        queries.setQueryData([ALL, key], value)
      })
      .catch((refused: unknown) => say(failureText(refused)))
  }
  if (error) return <Failure error={error} onRetry={() => void refetch()} />
  if (!views) return null
  return (
    <div className={look.editing}>
      {views.length === 0 && <p className={look.none}>{t('views.none')}</p>}
      <ul className={look.plain}>
        {views.map((view) => (
          <li key={view.name} className={look.member}>
            <Link to={path + view.search} isCurrent={view.search === search}>
              {view.name}
            </Link>
            <button
              type="button"
              className={css.remove}
              aria-label={t('remove-one', { name: view.name })}
              onClick={() => keep((all) => all.filter((one) => one.name !== view.name))}
            >
              {'×'}
            </button>
          </li>
        ))}
      </ul>
      <form
        className={look.editing}
        onSubmit={(event) => {
          event.preventDefault()
          const kept = { name: called.trim(), search }
          if (!kept.name) return
          keep((all) => [...all.filter((view) => view.name !== kept.name), kept].slice(-MOST))
          onDone()
        }}
      >
        <TextField name="view" label={t('views.save')} isRequired value={called} onChange={setCalled} maxLength={100} />
        <Button type="submit">{t('save')}</Button>
      </form>
    </div>
  )
}
