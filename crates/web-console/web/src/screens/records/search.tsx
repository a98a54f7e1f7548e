// Records of all classes, people and groups that match the typed text.

import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import type { Found } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import css from '../../kit/controls.module.css'
import { Icon } from '../../kit/icons.tsx'
import { Tag } from '../../kit/values.tsx'
import { foundRoute, search, useClassNames } from '../../shared/records/found.ts'
import { t } from '../../texts.ts'
import look from './records.module.css'

const ICONS = { object_record: 'file-text', user: 'user', user_group: 'users' } as const
const SIZE = 50

export function Search() {
  const go = useGo()
  const { search: address } = useHere()
  const text = new URLSearchParams(address).get('text') ?? ''
  const [typed, setTyped] = useState(text)
  useEffect(() => setTyped(text), [text])
  useEffect(() => {
    if (typed === text) return
    const timer = setTimeout(() => go(`/search?${new URLSearchParams({ text: typed })}`, true), 200)
    return () => clearTimeout(timer)
  })
  const { data, error, refetch } = useQuery(search(text.trim(), SIZE))
  const names = useClassNames(data ?? [])
  const kind = (one: Found) => {
    if (one.type === 'object_record') return names.get(one.object_class ?? 0) ?? t('records')
    return one.type === 'user' ? t('users') : t('user-groups')
  }
  return (
    <>
      <header className={generic.head}>
        <h1 tabIndex={-1}>{t('search')}</h1>
        <input
          type="search"
          className={`${css.input} ${generic.search}`}
          aria-label={t('search.text')}
          placeholder={t('search.text')}
          maxLength={200}
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      </header>
      {error && <Failure error={error} onRetry={() => void refetch()} />}
      <p role="status" className={css.hint}>
        {text.trim() === ''
          ? t('search.hint')
          : data && t(data.length < SIZE ? 'search.found' : 'search.more', { count: data.length })}
      </p>
      <ul className={look.rows}>
        {data?.map((result) => (
          <li key={`${result.type} ${result.id}`} className={look.row}>
            <span className={look.file}>
              <Icon name={ICONS[result.type]} />
              <Link to={foundRoute(result)}>{result.label}</Link>
            </span>
            <Tag>{kind(result)}</Tag>
          </li>
        ))}
      </ul>
    </>
  )
}
