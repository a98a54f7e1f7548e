// The forms that the caller may fill in.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { page } from '../../api/query.ts'
import { Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useHere } from '../../generic/go.tsx'
import { Turn } from '../../generic/turn.tsx'
import css from '../../kit/controls.module.css'
import { FORMS, mayFillIn, OneForm } from '../../shared/forms/one-form.tsx'
import { t } from '../../texts.ts'

const SIZE = 25

export function Forms() {
  const [offset, setOffset] = useState(0)
  const query = (at: number) => page(FORMS, `is_enabled=true&ordering=name&limit=${SIZE}&offset=${at}`)
  const forms = useQuery(query(offset))
  const mine = forms.data?.results.filter(mayFillIn) ?? []
  return (
    <>
      <header className={generic.head}>
        <h1 tabIndex={-1}>{t('forms')}</h1>
      </header>
      <Reading of={[forms]} />
      {forms.data && mine.length === 0 && <p className={generic.nothing}>{t('forms.none-for-me')}</p>}
      <ul className={generic.plain}>
        {mine.map((form) => (
          <li key={`${form.uuid}`} className={generic.member}>
            <Link to={`/forms/${form.uuid}`}>{`${form.name}`}</Link>
            <span className={css.optional}>{`${form._meta?.labels?.object_class ?? ''}`}</span>
          </li>
        ))}
      </ul>
      <Turn page={forms.data} offset={offset} size={SIZE} query={query} onTurn={setOffset} />
    </>
  )
}

export function FillIn() {
  const { path: here } = useHere()
  const uuid = here.split('/')[2] ?? ''
  return <OneForm key={uuid} uuid={uuid} />
}
