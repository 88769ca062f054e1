/* A comment
 of two lines */
// and one
export const n = 1
