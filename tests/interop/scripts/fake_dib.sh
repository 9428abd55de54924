#!/bin/sh
# A disk-image-create that writes a line of text in each format, with the checksums and the manifest of the real one.
formats=qcow2 output=
while [ $# -gt 0 ]; do
    case $1 in
    -o) output=$2 && shift ;;
    -t) formats=$2 && shift ;;
    --qemu-img-options) shift ;;
    esac
    shift
done
folder=$(dirname "$output")
for format in $(echo "$formats" | tr , ' '); do
    echo "$DIB_IMAGE_NAME $DIB_IMAGE_FILENAME $format" > "$output.$format"
    (cd "$folder" && for sum in md5 sha256; do
        "${sum}sum" "$(basename "$output").$format" > "$output.$format.$sum"
    done)
done
mkdir -p "$output.d" && echo shell > "$output.d/dib-manifest-dpkg"
