// The theme for everybody. While it is previewed, the whole page wears its hue.

import { useQuery } from '@tanstack/react-query'
import { useEffect, useId } from 'react'
import { invalidate, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Instance, Json } from '../../api/shapes.ts'
import { applyTheme, HUE, readTheme, type Theme, theme } from '../../api/theme.ts'
import { sayError } from '../../generic/failure.tsx'
import { Files } from '../../generic/files.tsx'
import css from '../../kit/controls.module.css'
import { Fieldset, Select, TextField } from '../../kit/fields.tsx'
import { t } from '../../texts.ts'
import { Editor } from './editor.tsx'
import look from './interface.module.css'

const FILES = '/api/files/public-storage/'
/** The formats that browsers draw. */
const PICTURES = ['.png', '.jpg', '.jpeg', '.gif']

export const ThemeEditor = () => (
  <Editor
    component="theme"
    understand={readTheme}
    form={(content, change) => <Form content={content} onChange={change} />}
    preview={(content) => <Preview content={content} />}
    onSaved={applyTheme}
  />
)

function Form({ content, onChange }: { content: Theme; onChange: (content: Theme) => void }) {
  const hue = content.hue ?? HUE
  const id = useId()
  return (
    <>
      <TextField
        name="name"
        label={t('interface.theme.name')}
        hint={t('interface.theme.name.hint')}
        maxLength={60}
        value={content.name ?? ''}
        onChange={(name) => onChange({ ...content, name })}
      />
      <Logo logo={content.logo} onChange={(logo) => onChange({ ...content, logo })} />
      <div className={css.field}>
        <label className={css.label} htmlFor={id}>
          {t('interface.theme.hue')}
        </label>
        <span id={`${id}h`} className={css.hint}>
          {t('interface.theme.hue.hint')}
        </span>
        <input
          id={id}
          type="range"
          className={look.hue}
          min={0}
          max={360}
          value={hue}
          aria-describedby={`${id}h`}
          onChange={(event) => onChange({ ...content, hue: Number(event.target.value) })}
        />
        <div className={look.circle} />
        <output htmlFor={id}>{`${hue}°`}</output>
      </div>
    </>
  )
}

function Logo({ logo, onChange }: { logo: string | undefined; onChange: (logo: string | undefined) => void }) {
  const files = session()?.permissions?.files
  const { data } = useQuery({ ...page(FILES, 'ordering=-created_at&limit=100'), enabled: files?.list === true })
  const pathOf = ({ url }: Instance) => new URL(`${url}`, location.origin).pathname
  const pictures = (data?.results ?? []).filter(({ extension }) => PICTURES.includes(`${extension}`.toLowerCase()))
  const choices = pictures.map((file) => ({ value: pathOf(file), text: `${file.filename}${file.extension}` }))
  if (logo && choices.every(({ value }) => value !== logo)) choices.unshift({ value: logo, text: logo })
  const publish = async (tokens: Json[]) => {
    const token = tokens.at(-1)
    if (token === undefined) return
    await call<Instance>('POST', FILES, { body: { token } }).then(({ data: file }) => onChange(pathOf(file)), sayError)
    await invalidate(FILES)
  }
  return (
    <Fieldset name="logo" label={t('interface.theme.logo')} hint={t('interface.theme.logo.hint')}>
      <Select
        name="logo-file"
        label={t('interface.theme.logo.file')}
        value={logo ?? null}
        choices={choices}
        onChange={(value) => onChange(value ? `${value}` : undefined)}
      />
      {files?.store === true && (
        <Files
          name="logo-upload"
          label={t('interface.theme.upload')}
          value={[]}
          most={1}
          onChange={(tokens) => void publish(tokens)}
        />
      )}
    </Fieldset>
  )
}

function Preview({ content }: { content: Theme }) {
  useEffect(() => {
    const before = theme()
    return () => applyTheme(before)
  }, [])
  const { hue = HUE, name = '', logo } = content
  useEffect(() => document.documentElement.style.setProperty('--hue', `${hue}`), [hue])
  return (
    <>
      {(['light', 'dark'] as const).map((scheme) => (
        <div key={scheme} className={look.sample} data-scheme={scheme}>
          <span className={look.brand}>
            {logo && <img key={logo} src={logo} alt="" />}
            <span>{name || (session()?.build ?? '')}</span>
          </span>
          <span className={`${css.button} ${css.primary}`}>{t('save')}</span>
          <span className={look.written}>{t('interface.look')}</span>
          <span className={look.chosen}>{t('interface.theme.sample')}</span>
        </div>
      ))}
    </>
  )
}
