// Views of a list that somebody keeps for himself: each is a name and an address.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { queries } from '../api/query.ts'
import { call, get } from '../api/request.ts'
import type { Page } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { TextField } from '../kit/fields.tsx'
import { t } from '../texts.ts'
import { sayError } from './failure.tsx'
import look from './generic.module.css'
import { Link, useHere } from './go.tsx'

interface View {
  name: string
  search: string
}

const ALL = '/api/users/me/preferences/'
/** More would not fit into a value of a preference for certain. */
const MOST = 50

export default function Views({ name, onDone }: { name: string; onDone: () => void }) {
  const { path, search } = useHere()
  const [called, setCalled] = useState('')
  const key = `console.views.${name
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]/g, '-')
    .slice(0, 80)}`
  const { data: views = [] } = useQuery({
    queryKey: [ALL, key],
    queryFn: async () => ((await get<Page>(`${ALL}?key=${key}`)).results[0]?.value ?? []) as unknown as View[],
  })
  const keep = async (next: View[]) => {
    queries.setQueryData([ALL, key], next)
    await call('PUT', `${ALL}${key}/`, { body: { value: next } }).catch((error: unknown) => {
      sayError(error)
      return queries.invalidateQueries({ queryKey: [ALL, key] })
    })
  }
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
              onClick={() => void keep(views.filter((one) => one !== view))}
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
          if (!called.trim()) return
          void keep(
            [...views.filter((view) => view.name !== called.trim()), { name: called.trim(), search }].slice(-MOST),
          )
          onDone()
        }}
      >
        <TextField name="view" label={t('views.save')} isRequired value={called} onChange={setCalled} maxLength={100} />
        <Button type="submit">{t('save')}</Button>
      </form>
    </div>
  )
}
